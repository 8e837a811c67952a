-- find_crawl.sql: a crawl, by its name.
-- $1  name
SELECT id, identity, floor
FROM crawler.crawl
WHERE name = $1;
