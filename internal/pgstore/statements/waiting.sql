-- waiting.sql: the next keys that wait to be fetched, by fingerprint.
-- $1  fingerprint after which the keys begin   $2  maximum number of keys
WITH next AS MATERIALIZED (
	SELECT fingerprint, depth, hops, priority, url, line
	FROM crawler.exact_waiting
	WHERE fingerprint > $1
	ORDER BY fingerprint
	LIMIT $2
)
SELECT w.fingerprint, k.round, k.class, w.depth, w.hops, w.priority, w.url, w.line, p.fingerprint IS NOT NULL AS pending
FROM next AS w
JOIN crawler.exact_key AS k ON k.fingerprint = w.fingerprint
LEFT JOIN crawler.exact_pending AS p ON p.fingerprint = w.fingerprint
ORDER BY w.fingerprint;
