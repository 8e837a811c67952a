-- visit_cursor.sql: how far the rows follow the records of a worker.
-- $1  crawl   $2  where the records are from
SELECT cursor
FROM crawler.visit_cursor
WHERE crawl = $1 AND source = $2;
