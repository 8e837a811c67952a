-- insert_records.sql: keep records, the first of each fingerprint and round.
-- $1  fingerprints   $2  rounds   $3  times of the request   $4  HTTP statuses   $5  outcomes
-- $6  URLs   $7  records, index for index; sorted by fingerprint and round, so that
-- concurrent calls lock rows in one order
INSERT INTO crawler.record (fingerprint, round, fetched, http, outcome, url, record)
SELECT t.fingerprint, t.round, t.fetched, nullif(t.http, 0), t.outcome, t.url, t.record::json
FROM unnest($1::uuid[], $2::int[], $3::timestamptz[], $4::smallint[], $5::text[], $6::text[], $7::text[])
	AS t(fingerprint, round, fetched, http, outcome, url, record)
ON CONFLICT (fingerprint, round) DO NOTHING;
