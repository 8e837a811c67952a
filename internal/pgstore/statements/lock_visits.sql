-- lock_visits.sql: the state and the census of a crawl's visits, for one transaction at a time.
-- It is the first statement of the transaction on visits, except begin_visits.sql.
-- $1  crawl
SELECT state, census
FROM crawler.visits
WHERE crawl = $1
FOR UPDATE;
