-- visits_due.sql: the pages that are due first, and when.
-- $1  crawl   $2  how many at most
SELECT item, reached, row, due
FROM crawler.visit
WHERE crawl = $1 AND row IS NOT NULL
ORDER BY crawl, due
LIMIT $2;
