-- lock_keys.sql: lock keys until the transaction ends, in one order.
-- What follows in the transaction has a snapshot of its own, in which they are
-- as they are now. It knows those that were locked here by their xmax, and leaves
-- alone what came to light in between: to wait for that would be out of order.
-- $1  fingerprints
SELECT fingerprint
FROM crawler.exact_key
WHERE fingerprint = ANY($1::uuid[])
ORDER BY fingerprint
FOR NO KEY UPDATE;
