-- forget_visits.sql: delete what is left of pages that were forgotten long ago.
-- $1  crawl   $2  before when, seconds since 1970   $3  how many at most
DELETE FROM crawler.visit
WHERE crawl = $1 AND item = ANY(ARRAY(
	SELECT item FROM crawler.visit
	WHERE crawl = $1 AND row IS NULL AND due < $2
	ORDER BY crawl, due
	LIMIT $3
	FOR UPDATE SKIP LOCKED
)) AND row IS NULL;
