-- renew.sql: begin the next round of keys whose window is over. The caller owns the returned keys.
-- It runs after lock_keys.sql in the same transaction.
-- $1  fingerprints   $2  classes, parallel to $1   $3  current time; null means now()
WITH pending AS (
	INSERT INTO crawler.exact_pending (fingerprint, since, was)
	SELECT fingerprint, coalesce($3::timestamptz, now()), (expires, http, class, outcome)::crawler.exact_finished
	FROM crawler.exact_key
	WHERE fingerprint = ANY($1::uuid[]) AND expires <= coalesce($3, now())
		AND xmax = pg_current_xact_id_if_assigned()::xid
)
UPDATE crawler.exact_key AS k
SET round = k.round + 1, expires = NULL, http = NULL, class = t.class::"char", outcome = NULL
FROM unnest($1, $2::text[]) AS t(fingerprint, class)
WHERE k.fingerprint = t.fingerprint AND k.expires <= coalesce($3, now())
	AND k.xmax = pg_current_xact_id_if_assigned()::xid
RETURNING k.fingerprint, k.round;
