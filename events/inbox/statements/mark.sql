-- mark.sql: mark an event; one row if it was not marked, none if it was.
-- $1  group   $2  id   $3  window in microseconds, null for ever   $4  time, null for the server's
-- A mark that has expired counts as none, whether it was swept or not. Of transactions that race,
-- one gets past the row; the others wait for its end, and see what it committed. A mark that is there
-- is found by reading: ON CONFLICT would lock it, which writes to the disk.
INSERT INTO inbox.seen AS s (grp, id, expires)
SELECT $1::text, $2::text, coalesce($4::timestamptz, now()) + $3::bigint * interval '1 microsecond'
WHERE NOT EXISTS (
	SELECT FROM inbox.seen
	WHERE grp = $1 AND id = $2 AND (expires IS NULL OR expires > coalesce($4, now()))
)
ON CONFLICT (grp, id) DO UPDATE SET expires = excluded.expires
WHERE s.expires <= coalesce($4::timestamptz, now())
RETURNING true;
