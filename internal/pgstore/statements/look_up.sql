-- look_up.sql: the keys that are known, with their rounds, and whether their windows are over.
-- $1  fingerprints   $2  current time; null means now()
SELECT fingerprint, round, coalesce(expires <= coalesce($2::timestamptz, now()), false)
FROM crawler.exact_key
WHERE fingerprint = ANY($1::uuid[]);
