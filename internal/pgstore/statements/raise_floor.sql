-- raise_floor.sql: move the keys that this transaction inserted to a round that no swept key has had.
-- It runs after the insert, with a newer snapshot, so that it sees keys that were swept
-- while the insert waited.
-- $1  fingerprints   $2  crawl   $3  round in which they were inserted
UPDATE crawler.exact_key AS k
SET round = c.floor
FROM crawler.crawl AS c
WHERE c.id = $2 AND c.floor > $3
	AND k.fingerprint = ANY($1::uuid[]) AND k.xmin = pg_current_xact_id_if_assigned()::xid
RETURNING k.fingerprint, k.round;
