-- mark.sql: mark an event. It returns one row if the event was not marked, and none if it was.
-- $1  group   $2  id   $3  window in microseconds; null means for ever   $4  current time; null means now()
-- An expired mark does not count, even if it was not swept yet. If several transactions mark the same event, one
-- inserts or updates the row. The others wait until that transaction ends. If it has committed, they find its mark.
-- For a marked event, WHERE NOT EXISTS prevents the INSERT. Without it, ON CONFLICT would find the mark, but would
-- also lock the row, which writes to the disk.
INSERT INTO inbox.seen AS s (grp, id, expires)
SELECT $1::text, $2::text, coalesce($4::timestamptz, now()) + $3::bigint * interval '1 microsecond'
WHERE NOT EXISTS (
	SELECT FROM inbox.seen
	WHERE grp = $1 AND id = $2 AND (expires IS NULL OR expires > coalesce($4, now()))
)
ON CONFLICT (grp, id) DO UPDATE SET expires = excluded.expires
WHERE s.expires <= coalesce($4::timestamptz, now())
RETURNING true;
