-- committed.sql: the next records after a cursor, in the order of transactions.
-- It stops at the oldest transaction that still runs. So records that are committed later have cursors after all
-- records that it returns.
-- $1, $2  xid and sequence of the cursor   $3  maximum number of records
SELECT xid, sequence, fingerprint, round, fetched, coalesce(http, 0), outcome, url, record::text
FROM crawler.record
WHERE (xid, sequence) > ($1::xid8, $2::int) AND xid < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY xid, sequence
LIMIT $3;
