-- latest_records.sql: the next records that are of the last round of their fingerprint, by fingerprint.
-- $1, $2  fingerprint and round after which the records begin   $3  maximum number of records
SELECT DISTINCT ON (fingerprint) fingerprint, round, fetched, coalesce(http, 0), outcome, url, record::text
FROM crawler.record
WHERE (fingerprint, round) > ($1, $2)
ORDER BY fingerprint, round DESC
LIMIT $3;
