-- records.sql: the next records, by fingerprint and round.
-- $1, $2  fingerprint and round after which the records begin   $3  maximum number of records
SELECT fingerprint, round, fetched, coalesce(http, 0), outcome, url, record::text
FROM crawler.record
WHERE (fingerprint, round) > ($1, $2)
ORDER BY fingerprint, round
LIMIT $3;
