-- relay_names.sql: the relays of a crawl that have saved a cursor.
-- $1  crawl
SELECT name
FROM crawler.relay
WHERE crawl = $1 AND cursor IS NOT NULL
ORDER BY name;
