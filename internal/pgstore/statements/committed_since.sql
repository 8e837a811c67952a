-- committed_since.sql: the oldest transaction that still runs, and the cursor of the first record fetched at a time or later.
-- $1  time; null for none: the cursor is null, too
SELECT pg_snapshot_xmin(pg_current_snapshot()), f.xid, f.sequence
FROM (VALUES (1)) AS one
LEFT JOIN LATERAL (
	SELECT xid, sequence
	FROM crawler.record
	WHERE fetched >= $1::timestamptz
	ORDER BY xid, sequence
	LIMIT 1
) AS f ON true;
