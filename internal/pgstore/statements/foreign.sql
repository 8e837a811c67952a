-- foreign.sql: whether a cursor, or the cursor of the last record, belongs to a transaction that this server has
-- not begun.
-- This is true if the database was restored from a dump of another server, whose transactions had higher numbers.
-- A cursor with the sequence 0 is before all records of its transaction. So its transaction can be the next one.
-- $1, $2  xid and sequence of the cursor
SELECT ($1::xid8, $2::int) > (pg_snapshot_xmax(snapshot), 0)
	OR coalesce((SELECT xid FROM crawler.record ORDER BY xid DESC, sequence DESC LIMIT 1) >= pg_snapshot_xmax(snapshot), false)
FROM pg_current_snapshot() AS snapshot;
