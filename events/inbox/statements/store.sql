-- store.sql: mark an event and store it. It is stored to be handled, or as a dead letter if $7 is not null. The
-- statement returns one row if the event was new, otherwise none.
-- $1  group   $2  id   $3  type   $4  data   $5  window in microseconds; null means for ever
-- $6  current time; null means now()   $7  reason why the event is a dead letter; null means that it is not
-- $8  number of attempts that were made
-- An event that is still stored is not new, even if its mark has expired.
WITH marked AS (
	INSERT INTO inbox.seen AS s (grp, id, expires)
	SELECT $1::text, $2::text, coalesce($6::timestamptz, now()) + $5::bigint * interval '1 microsecond'
	WHERE NOT EXISTS ( -- as in mark.sql
		SELECT FROM inbox.seen
		WHERE grp = $1 AND id = $2 AND (expires IS NULL OR expires > coalesce($6, now()))
	)
	ON CONFLICT (grp, id) DO UPDATE SET expires = excluded.expires
	WHERE s.expires <= coalesce($6::timestamptz, now())
	RETURNING s.grp, s.id
)
INSERT INTO inbox.stored (grp, id, type, data, stored, due, attempts, dead, reason)
SELECT grp, id, $3, $4, coalesce($6, now()), coalesce($6, now()), $8,
	CASE WHEN $7::text IS NOT NULL THEN coalesce($6, now()) END, coalesce($7, '')
FROM marked
ON CONFLICT (grp, id) DO NOTHING
RETURNING true;
