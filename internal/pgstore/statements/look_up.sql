-- look_up.sql: which of some keys are known, in which round, and whether that is over.
-- $1  fingerprints   $2  time, null for the server's
SELECT fingerprint, round, coalesce(expires <= coalesce($2::timestamptz, now()), false)
FROM crawler.exact_key
WHERE fingerprint = ANY($1::uuid[]);
