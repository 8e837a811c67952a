-- lead_visits.sql: make a worker the one that queues what is due, or prolong that. It returns no row if another worker is.
-- $1  crawl   $2  the worker   $3  for how long
UPDATE crawler.visits SET leader = $2, until = now() + $3::interval
WHERE crawl = $1 AND (leader = $2 OR until < now())
RETURNING true;
