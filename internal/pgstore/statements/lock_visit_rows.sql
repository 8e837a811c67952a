-- lock_visit_rows.sql: lock the rows of pages until the transaction ends, in the order of their items.
-- $1  crawl   $2  items
SELECT item
FROM crawler.visit
WHERE crawl = $1 AND item = ANY($2::uuid[])
ORDER BY item
FOR NO KEY UPDATE;
