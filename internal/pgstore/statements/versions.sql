-- versions.sql: the newest versions of a crawl's policy, latest first.
-- $1  crawl   $2  how many
SELECT version
FROM crawler.policy
WHERE crawl = $1
ORDER BY number DESC
LIMIT $2;
