-- save_visit_rows.sql: store the rows of pages. It runs after lock_visits.sql in the same transaction.
-- $1  crawl   $2  items, distinct and sorted, so that this locks rows in the order of lock_visit_rows.sql
-- $3  rounds that were reached   $4  when the pages are due   $5  rows, null for pages that are forgotten; parallel arrays
INSERT INTO crawler.visit AS v (crawl, item, reached, due, row)
SELECT $1, t.item, t.reached, t.due, t.row
FROM unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::bytea[]) WITH ORDINALITY AS t(item, reached, due, row, place)
ORDER BY t.place
ON CONFLICT (crawl, item) DO UPDATE SET reached = greatest(v.reached, excluded.reached), due = excluded.due, row = excluded.row;
