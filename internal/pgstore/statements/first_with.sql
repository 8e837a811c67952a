-- first_with.sql: the first item with each of some contents. An item is stored as the first if there is none. A content that another
-- transaction stores at this moment has no row in the result.
-- $1  crawl   $2  contents   $3  items, each with the content at its index
WITH given AS (
	SELECT content, item, place FROM unnest($2::bytea[], $3::bytea[]) WITH ORDINALITY AS given (content, item, place)
), added AS (
	INSERT INTO crawler.content (crawl, content, first)
	SELECT DISTINCT ON (content) $1::int, content, item FROM given
	ORDER BY content, place
	ON CONFLICT DO NOTHING
	RETURNING content, first
)
SELECT content, first FROM added
UNION ALL
SELECT content, first FROM crawler.content
WHERE crawl = $1 AND content IN (SELECT content FROM given);
