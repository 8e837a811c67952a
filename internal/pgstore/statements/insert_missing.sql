-- insert_missing.sql: insert keys that a look-up did not find, as pending. The caller owns the returned keys.
-- $1  fingerprints, distinct and sorted by the caller, so that concurrent calls lock rows in one order
-- $2  classes, parallel to $1   $3  round   $4  current time; null means now()
WITH fresh AS (
	INSERT INTO crawler.exact_key (fingerprint, round, class)
	SELECT t.fingerprint, $3, t.class::"char"
	FROM unnest($1::uuid[], $2::text[]) AS t(fingerprint, class)
	ON CONFLICT (fingerprint) DO NOTHING
	RETURNING fingerprint, round
), pending AS (
	INSERT INTO crawler.exact_pending (fingerprint, since)
	SELECT fingerprint, coalesce($4::timestamptz, now())
	FROM fresh
)
SELECT fingerprint, round
FROM fresh;
