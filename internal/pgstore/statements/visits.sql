-- visits.sql: the state and the census of a crawl's visits.
-- $1  crawl
SELECT state, census
FROM crawler.visits
WHERE crawl = $1;
