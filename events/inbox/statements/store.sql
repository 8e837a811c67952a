-- store.sql: mark an event and keep it, to be handled or as a dead letter; one row if it was new.
-- $1  group   $2  id   $3  type   $4  data   $5  window in microseconds, null for ever
-- $6  time, null for the server's   $7  why it is a dead letter, null if it is not   $8  its attempts so far
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
