-- insert_waiting.sql: store the data that is needed to queue the keys that this transaction inserted or renewed.
-- $1  fingerprints   $2  depths   $3  hops   $4  priorities   $5  URLs   $6  lines, null for none; parallel arrays
INSERT INTO crawler.exact_waiting (fingerprint, depth, hops, priority, url, line)
SELECT t.fingerprint, t.depth, t.hops, t.priority, t.url, t.line
FROM unnest($1::uuid[], $2::int[], $3::smallint[], $4::smallint[], $5::text[], $6::bytea[])
	AS t(fingerprint, depth, hops, priority, url, line)
JOIN crawler.exact_key AS k ON k.fingerprint = t.fingerprint
WHERE k.xmin = pg_current_xact_id_if_assigned()::xid;
