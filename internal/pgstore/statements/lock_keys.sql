-- lock_keys.sql: lock keys until the transaction ends, in the order of their fingerprints.
-- The next statement of the transaction has a newer snapshot, with the keys as they are now. That statement sees in
-- the xmax of a key whether the key was locked here. It must not change keys that were inserted in between: they are
-- not locked, so the statement could wait for their locks out of order.
-- $1  fingerprints
SELECT fingerprint
FROM crawler.exact_key
WHERE fingerprint = ANY($1::uuid[])
ORDER BY fingerprint
FOR NO KEY UPDATE;
