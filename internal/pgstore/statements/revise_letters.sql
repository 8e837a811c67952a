-- revise_letters.sql: change the reasons, times and marks of dead letters of a relay.
-- $1  crawl   $2  name of the relay
-- $3  ids of events   $4  reasons   $5  times   $6  marks, parallel arrays; ids are distinct
UPDATE crawler.dead_letter AS d
SET reason = t.reason, refused = t.refused, resend = t.resend
FROM unnest($3::text[], $4::text[], $5::timestamptz[], $6::boolean[]) AS t(id, reason, refused, resend)
WHERE d.crawl = $1 AND d.relay = $2 AND d.id = t.id;
