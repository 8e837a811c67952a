-- raise_floor.sql: lift the keys that this transaction inserted to the round that no swept key had.
-- It runs behind the insert, with a snapshot of its own: a key that was swept
-- while the insert waited is seen here.
-- $1  fingerprints   $2  crawl   $3  round in which they were inserted
UPDATE crawler.exact_key AS k
SET round = c.floor
FROM crawler.crawl AS c
WHERE c.id = $2 AND c.floor > $3
	AND k.fingerprint = ANY($1::uuid[]) AND k.xmin = pg_current_xact_id_if_assigned()::xid
RETURNING k.fingerprint, k.round;
