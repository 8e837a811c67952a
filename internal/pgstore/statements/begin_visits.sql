-- begin_visits.sql: make the row of a crawl's visits, unless there is one.
-- $1  crawl
INSERT INTO crawler.visits (crawl) VALUES ($1)
ON CONFLICT DO NOTHING;
