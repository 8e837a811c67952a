-- drop_visit_hosts.sql: delete the sums of hosts without pages. It runs after save_visit_hosts.sql in the same transaction.
-- $1  crawl   $2  hosts
DELETE FROM crawler.visit_host
WHERE crawl = $1 AND host = ANY($2::text[]) AND pages <= 0;
