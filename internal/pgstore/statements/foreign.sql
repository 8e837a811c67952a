-- foreign.sql: whether a cursor, or the cursor of the last record, belongs to a transaction that this server has
-- not begun.
-- This is true if the database was restored from a dump of another server, whose transactions had higher numbers.
-- $1  xid
SELECT greatest($1::xid8, (SELECT xid FROM crawler.record ORDER BY xid DESC, sequence DESC LIMIT 1)) >= pg_snapshot_xmax(pg_current_snapshot());
