-- finish.sql: store the outcomes of finished keys, unless an earlier call has done so.
-- It runs after lock_keys.sql in the same transaction.
-- $1  fingerprints, distinct   $2  rounds   $3  classes   $4  outcomes   $5  HTTP statuses, parallel arrays
-- $6  crawl   $7  current time; null means now()
WITH finished AS (
	UPDATE crawler.exact_key AS k
	SET round = t.round, expires = coalesce($7::timestamptz, now()) + w.length,
		http = nullif(t.http, 0), outcome = t.outcome::"char"
	FROM unnest($1::uuid[], $2::int[], $3::smallint[], $4::text[], $5::smallint[]) AS t(fingerprint, round, class, outcome, http)
	LEFT JOIN crawler.exact_window AS w ON w.crawl = $6 AND w.class = t.class
	WHERE k.fingerprint = t.fingerprint AND k.xmax = pg_current_xact_id_if_assigned()::xid
		AND (k.round < t.round OR k.round = t.round AND k.outcome IS NULL)
	RETURNING k.fingerprint
), fetched AS (
	DELETE FROM crawler.exact_waiting
	WHERE fingerprint = ANY(ARRAY(SELECT fingerprint FROM finished))
), pending AS (
	SELECT fingerprint
	FROM crawler.exact_pending
	WHERE fingerprint = ANY(ARRAY(SELECT fingerprint FROM finished))
	ORDER BY fingerprint
	FOR UPDATE
)
DELETE FROM crawler.exact_pending
WHERE fingerprint = ANY(ARRAY(SELECT fingerprint FROM pending));
