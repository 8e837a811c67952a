-- own_pending.sql: of known keys, those that are pending and have these lines, with their rounds, and whether the set never
-- had them before.
-- $1  fingerprints   $2  lines, parallel to $1
SELECT w.fingerprint, k.round, k.round = 0 AND (p.was).outcome IS NULL AS first
FROM unnest($1::uuid[], $2::bytea[]) AS t(fingerprint, line)
JOIN crawler.exact_waiting AS w ON w.fingerprint = t.fingerprint AND w.line = t.line
JOIN crawler.exact_pending AS p ON p.fingerprint = t.fingerprint
JOIN crawler.exact_key AS k ON k.fingerprint = t.fingerprint;
