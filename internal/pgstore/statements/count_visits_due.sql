-- count_visits_due.sql: how many pages are due, and when the first one was; null if there is none.
-- $1  crawl   $2  seconds since 1970   $3  how many are counted at most
SELECT count(*), min(due)
FROM (
	SELECT due FROM crawler.visit
	WHERE crawl = $1 AND row IS NOT NULL AND due <= $2
	ORDER BY crawl, due
	LIMIT $3
) AS first;
