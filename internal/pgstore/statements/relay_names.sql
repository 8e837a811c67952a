-- relay_names.sql: the relays of a crawl.
-- $1  crawl
SELECT name
FROM crawler.relay
WHERE crawl = $1
ORDER BY name;
