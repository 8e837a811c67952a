-- insert_waiting.sql: store the data that is needed to queue the keys that this transaction inserted or renewed.
-- $1  fingerprints   $2  depths   $3  hops   $4  priorities   $5  URLs, parallel arrays
INSERT INTO crawler.exact_waiting (fingerprint, depth, hops, priority, url)
SELECT t.fingerprint, t.depth, t.hops, t.priority, t.url
FROM unnest($1::uuid[], $2::int[], $3::smallint[], $4::smallint[], $5::text[]) AS t(fingerprint, depth, hops, priority, url)
JOIN crawler.exact_key AS k ON k.fingerprint = t.fingerprint
WHERE k.xmin = pg_current_xact_id_if_assigned()::xid;
