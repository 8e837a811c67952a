-- save_visit_hosts.sql: add to the sums of hosts. It runs after lock_visits.sql in the same transaction.
-- $1  crawl   $2  hosts, distinct   $3  pages   $4  queued pages   $5  visits a day
-- $6  changes that were announced rightly   $7  wrongly   $8  missed; parallel arrays
INSERT INTO crawler.visit_host AS h (crawl, host, pages, queued, per_day, rightly, wrongly, missed)
SELECT $1, t.*
FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::float8[], $6::bigint[], $7::bigint[], $8::bigint[])
	AS t(host, pages, queued, per_day, rightly, wrongly, missed)
ON CONFLICT (crawl, host) DO UPDATE
SET pages = h.pages + excluded.pages, queued = h.queued + excluded.queued, per_day = greatest(h.per_day + excluded.per_day, 0),
	rightly = h.rightly + excluded.rightly, wrongly = h.wrongly + excluded.wrongly, missed = h.missed + excluded.missed;
