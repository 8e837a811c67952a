-- busiest_visit_hosts.sql: the hosts whose pages want the most visits.
-- $1  crawl   $2  how many at most
SELECT host, pages, queued, per_day, rightly, wrongly, missed
FROM crawler.visit_host
WHERE crawl = $1
ORDER BY per_day DESC, host
LIMIT $2;
