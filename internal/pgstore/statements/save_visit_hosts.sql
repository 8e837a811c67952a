-- save_visit_hosts.sql: add to the sums of hosts. It runs after lock_visits.sql in the same transaction.
-- $1  crawl   $2  hosts, distinct   $3  pages   $4  queued pages   $5  visits a day; parallel arrays
INSERT INTO crawler.visit_host AS h (crawl, host, pages, queued, per_day)
SELECT $1, t.host, t.pages, t.queued, t.per_day
FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::float8[]) AS t(host, pages, queued, per_day)
ON CONFLICT (crawl, host) DO UPDATE
SET pages = h.pages + excluded.pages, queued = h.queued + excluded.queued, per_day = greatest(h.per_day + excluded.per_day, 0);
