-- kept.sql: what is kept of a crawl's queue, in case that is lost.
-- $1  name of the crawl
SELECT identity, card, coalesce(waited, 0), coalesce(exact, 0), noted
FROM crawler.crawl
WHERE name = $1;
