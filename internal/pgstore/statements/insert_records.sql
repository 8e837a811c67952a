-- insert_records.sql: insert records. Only the first record of each fingerprint and round is kept. It returns the
-- sequences of the records that were kept.
-- A transaction must run this statement only once, because all rows get the xid of the transaction, and the sequences
-- number the rows of the transaction.
-- $1  fingerprints   $2  rounds   $3  times of the requests   $4  HTTP statuses   $5  outcomes
-- $6  URLs   $7  records   $8  sequences
-- The arrays are parallel, and sorted by fingerprint and round, so that concurrent calls lock rows in one order.
INSERT INTO crawler.record (fingerprint, round, fetched, http, outcome, url, record, sequence)
SELECT t.fingerprint, t.round, t.fetched, nullif(t.http, 0), t.outcome, t.url, t.record::json, t.sequence
FROM unnest($1::uuid[], $2::int[], $3::timestamptz[], $4::smallint[], $5::text[], $6::text[], $7::text[], $8::int[])
	AS t(fingerprint, round, fetched, http, outcome, url, record, sequence)
ON CONFLICT (fingerprint, round) DO NOTHING
RETURNING sequence;
