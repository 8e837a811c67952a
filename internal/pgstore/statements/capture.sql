-- capture.sql: write events for change data capture.
-- $1  ids   $2  hosts   $3  types   $4  payloads, parallel arrays
INSERT INTO crawler.outbox (id, aggregatetype, aggregateid, type, payload)
SELECT t.id, 'page', t.host, t.type, t.payload::json
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS t(id, host, type, payload);
