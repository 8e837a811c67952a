-- visit_host.sql: what the pages of a host sum up to.
-- $1  crawl   $2  host
SELECT host, pages, queued, per_day, rightly, wrongly, missed
FROM crawler.visit_host
WHERE crawl = $1 AND host = $2;
