-- committed_lag.sql: the number of records after a cursor, and for the first 1000 of them the average size and the
-- time of the oldest fetch.
-- $1, $2  xid and sequence of the cursor
WITH next AS (
	SELECT fetched, octet_length(record::text) AS bytes
	FROM crawler.record
	WHERE (xid, sequence) > ($1::xid8, $2::int)
	ORDER BY xid, sequence
	LIMIT 1000
)
SELECT (SELECT count(*) FROM crawler.record WHERE (xid, sequence) > ($1, $2)), coalesce(avg(bytes), 0)::float8, min(fetched)
FROM next;
