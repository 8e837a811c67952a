-- sweep.sql: delete finished keys whose window is over, beginning with the earliest end of a window.
-- Rows that are locked are skipped. If two callers sweep at once, one of them deletes nothing. Keys are locked in the
-- order of their fingerprints, as everywhere, because even SKIP LOCKED can wait. It can wait if another transaction
-- commits an update of a row while the statement runs, and the new version of the row is locked.
-- A deleted key can be inserted again. Keys that are inserted later begin at least two rounds after each deleted key.
-- One round is not enough, because the queue may already have begun the next round of a deleted key.
-- $1  crawl   $2  maximum number of keys   $3  current time; null means now()
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
	FROM (SELECT max(round) + 2 AS floor FROM swept HAVING count(*) > 0) AS s
	WHERE c.id = $1 AND c.floor < s.floor
)
SELECT count(*)
FROM swept;
