-- save_visits.sql: store the state and the census of a crawl's visits. It runs after lock_visits.sql in the same transaction.
-- $1  crawl   $2  state   $3  census
UPDATE crawler.visits SET state = $2, census = $3
WHERE crawl = $1;
