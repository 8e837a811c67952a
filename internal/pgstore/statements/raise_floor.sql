-- raise_floor.sql: raise the round of the keys that this transaction inserted to the floor of the crawl, a round that no
-- swept key has had.
-- It runs after the insert, with a newer snapshot. So it sees the new floor if keys were swept while the insert waited.
-- $1  fingerprints   $2  crawl   $3  round in which they were inserted
UPDATE crawler.exact_key AS k
SET round = c.floor
FROM crawler.crawl AS c
WHERE c.id = $2 AND c.floor > $3
	AND k.fingerprint = ANY($1::uuid[]) AND k.xmin = pg_current_xact_id_if_assigned()::xid
RETURNING k.fingerprint, k.round;
