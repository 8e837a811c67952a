-- add_version.sql: store a version of a crawl's policy, unless there is a later one or another one with its number.
-- It returns true if the version is the newest one now.
-- $1  crawl   $2  number   $3  version   $4  how many versions are kept
WITH added AS (
	INSERT INTO crawler.policy (crawl, number, version)
	SELECT $1, $2, $3
	WHERE NOT EXISTS (SELECT FROM crawler.policy WHERE crawl = $1 AND number >= $2)
	ON CONFLICT DO NOTHING
	RETURNING number
), old AS (
	DELETE FROM crawler.policy WHERE crawl = $1 AND number <= $2 - $4
)
SELECT EXISTS (SELECT FROM added) OR EXISTS (
	SELECT FROM crawler.policy AS same
	WHERE crawl = $1 AND number = $2 AND version = $3
		AND NOT EXISTS (SELECT FROM crawler.policy WHERE crawl = $1 AND number > $2)
);
