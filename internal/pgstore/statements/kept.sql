-- kept.sql: the data that is stored about a crawl's queue, in case the queue is lost.
-- $1  name of the crawl
SELECT identity, card, coalesce(waited, 0), coalesce(exact, 0), noted
FROM crawler.crawl
WHERE name = $1;
