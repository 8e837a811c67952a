-- visits_after.sql: the next pages after an item that are not forgotten.
-- $1  crawl   $2  item; null for the first pages   $3  how many at most
SELECT item, reached, row
FROM crawler.visit
WHERE crawl = $1 AND item >= coalesce($2::uuid, '00000000-0000-0000-0000-000000000000') AND item IS DISTINCT FROM $2 AND row IS NOT NULL
ORDER BY crawl, item
LIMIT $3;
