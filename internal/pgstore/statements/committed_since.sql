-- committed_since.sql: the oldest transaction that still runs (or the next one, if none runs), and the cursor of the
-- first record that was fetched at a given time or later. The cursor is null if there is no such record.
-- $1  time; with null the cursor is null
SELECT pg_snapshot_xmin(pg_current_snapshot()), f.xid, f.sequence
FROM (VALUES (1)) AS one
LEFT JOIN LATERAL (
	SELECT xid, sequence
	FROM crawler.record
	WHERE fetched >= $1::timestamptz
	ORDER BY xid, sequence
	LIMIT 1
) AS f ON true;
