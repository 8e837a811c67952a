-- sweep.sql: forget the finished keys whose window is over, those first that have been longest.
-- What is locked is left for another time, and of two callers one finds nothing to
-- do. Keys are locked in the order of their fingerprints, as everywhere: to lock a
-- row that was updated since the snapshot can wait, even with SKIP LOCKED.
-- $1  crawl   $2  how many   $3  time, null for the server's
WITH turn AS (
	SELECT id
	FROM crawler.crawl
	WHERE id = $1
	FOR NO KEY UPDATE SKIP LOCKED
), oldest AS (
	SELECT fingerprint
	FROM crawler.exact_key
	WHERE expires <= coalesce($3::timestamptz, now()) AND EXISTS (SELECT id FROM turn)
	ORDER BY expires
	LIMIT $2
), over AS (
	SELECT fingerprint
	FROM crawler.exact_key
	WHERE fingerprint = ANY(ARRAY(SELECT fingerprint FROM oldest)) AND expires <= coalesce($3, now())
	ORDER BY fingerprint
	FOR UPDATE SKIP LOCKED
), swept AS (
	DELETE FROM crawler.exact_key
	WHERE fingerprint = ANY(ARRAY(SELECT fingerprint FROM over))
	RETURNING round
), raised AS (
	UPDATE crawler.crawl AS c
	SET floor = s.floor
	FROM (SELECT max(round) + 1 AS floor FROM swept) AS s
	WHERE c.id = $1 AND c.floor < s.floor
)
SELECT count(*)
FROM swept;
