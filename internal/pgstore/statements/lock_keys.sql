-- lock_keys.sql: lock keys until the transaction ends, in the order of their fingerprints.
-- The next statement of the transaction has a newer snapshot, so it sees the latest versions of the locked keys. The
-- xmax of a key shows whether the key was locked here. The next statement must not change keys that were inserted in
-- between: they are not locked, so the statement could wait for their locks out of order.
-- $1  fingerprints
SELECT fingerprint
FROM crawler.exact_key
WHERE fingerprint = ANY($1::uuid[])
ORDER BY fingerprint
FOR NO KEY UPDATE;
