-- withdraw.sql: revert the decision that pending keys are new.
-- It restores keys that were finished in an earlier round, and deletes the others.
-- It runs after lock_keys.sql in the same transaction.
-- $1  fingerprints   $2  rounds, parallel arrays
WITH mine AS (
	SELECT p.fingerprint
	FROM unnest($1::uuid[], $2::int[]) AS t(fingerprint, round)
	JOIN crawler.exact_key AS k ON k.fingerprint = t.fingerprint AND k.round = t.round
		AND k.xmax = pg_current_xact_id_if_assigned()::xid
	JOIN crawler.exact_pending AS p ON p.fingerprint = t.fingerprint
	ORDER BY p.fingerprint
	FOR UPDATE OF p
), gone AS (
	DELETE FROM crawler.exact_pending
	WHERE fingerprint = ANY(ARRAY(SELECT fingerprint FROM mine))
	RETURNING fingerprint, was
), unwanted AS (
	DELETE FROM crawler.exact_waiting
	WHERE fingerprint = ANY(ARRAY(SELECT fingerprint FROM gone))
), forgotten AS (
	DELETE FROM crawler.exact_key
	WHERE fingerprint = ANY(ARRAY(SELECT fingerprint FROM gone WHERE (was).outcome IS NULL))
)
UPDATE crawler.exact_key AS k
SET round = k.round - 1, expires = (g.was).expires, http = (g.was).http, class = (g.was).class, outcome = (g.was).outcome
FROM gone AS g
WHERE k.fingerprint = g.fingerprint AND (g.was).outcome IS NOT NULL;
