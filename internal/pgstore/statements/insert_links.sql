-- insert_links.sql: insert links of pages, only of those whose records this transaction has inserted. So the links in
-- the table are those that were found with the record that was kept.
-- $1  fingerprints   $2  rounds   $3  parts   $4  lines
-- The arrays are parallel. No other transaction inserts links of the same pages.
INSERT INTO crawler.link (fingerprint, round, part, line)
SELECT t.fingerprint, t.round, t.part, t.line::json
FROM unnest($1::uuid[], $2::int[], $3::int[], $4::text[]) AS t(fingerprint, round, part, line)
WHERE EXISTS (
	SELECT FROM crawler.record AS r
	WHERE r.fingerprint = t.fingerprint AND r.round = t.round AND r.xid = pg_current_xact_id()
);
