-- queued.sql: mark pending keys as queued.
-- A key that another call has locked is skipped, and stays pending. A relay then offers it again, and the queue
-- ignores the offer.
-- $1  fingerprints   $2  rounds, parallel arrays
WITH mine AS (
	SELECT p.fingerprint
	FROM unnest($1::uuid[], $2::int[]) AS t(fingerprint, round)
	JOIN crawler.exact_key AS k ON k.fingerprint = t.fingerprint AND k.round = t.round
	JOIN crawler.exact_pending AS p ON p.fingerprint = t.fingerprint
	ORDER BY p.fingerprint
	FOR UPDATE OF p SKIP LOCKED
)
DELETE FROM crawler.exact_pending
WHERE fingerprint = ANY(ARRAY(SELECT fingerprint FROM mine));
