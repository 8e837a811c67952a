-- status.sql: the state of one key.
-- $1  fingerprint   $2  current time; null means now()
SELECT k.round, k.class, k.outcome, coalesce(k.http, 0), k.expires - coalesce($2::timestamptz, now()), p.fingerprint IS NOT NULL
FROM crawler.exact_key AS k
LEFT JOIN crawler.exact_pending AS p ON p.fingerprint = k.fingerprint
WHERE k.fingerprint = $1;
