-- reach_visits.sql: store the rounds that pages have reached. It runs after lock_visit_rows.sql in the same transaction.
-- $1  crawl   $2  items, distinct   $3  rounds, a parallel array
UPDATE crawler.visit AS v SET reached = t.round
FROM unnest($2::uuid[], $3::bigint[]) AS t(item, round)
WHERE v.crawl = $1 AND v.item = t.item AND v.reached < t.round;
