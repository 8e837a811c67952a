-- stale.sql: return keys that have been pending for some time. No relay gets them again until that time has passed
-- once more.
-- Rows that are locked are skipped. Pending keys are locked in the order of their fingerprints, as everywhere, because
-- even SKIP LOCKED can wait. It can wait if another transaction commits an update of a row while the statement runs,
-- and the new version of the row is locked.
-- $1  minimum time for which they have been pending   $2  maximum number of keys   $3  current time; null means now()
WITH oldest AS (
	SELECT fingerprint
	FROM crawler.exact_pending
	WHERE since <= coalesce($3::timestamptz, now()) - $1::interval
	ORDER BY since
	LIMIT $2
), stale AS (
	SELECT fingerprint
	FROM crawler.exact_pending
	WHERE fingerprint = ANY(ARRAY(SELECT fingerprint FROM oldest))
		AND since <= coalesce($3, now()) - $1
	ORDER BY fingerprint
	FOR UPDATE SKIP LOCKED
), taken AS (
	UPDATE crawler.exact_pending
	SET since = coalesce($3, now())
	WHERE fingerprint = ANY(ARRAY(SELECT fingerprint FROM stale))
)
SELECT w.fingerprint, k.round, k.class, w.depth, w.hops, w.priority, w.url, w.line, true AS pending
FROM stale AS s
JOIN crawler.exact_waiting AS w ON w.fingerprint = s.fingerprint
JOIN crawler.exact_key AS k ON k.fingerprint = s.fingerprint;
