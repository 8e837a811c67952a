-- relay.sql: how far a relay has delivered, and how many events its sink refused.
-- $1  crawl   $2  name of the relay
SELECT cursor, moved, (SELECT count(*) FROM crawler.dead_letter AS d WHERE d.crawl = r.crawl AND d.relay = r.name)
FROM crawler.relay AS r
WHERE crawl = $1 AND name = $2 AND cursor IS NOT NULL;
