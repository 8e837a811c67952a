-- visit_rows.sql: the rows of some pages.
-- $1  crawl   $2  items
SELECT item, reached, row
FROM crawler.visit
WHERE crawl = $1 AND item = ANY($2::uuid[]);
