-- count.sql: the number of keys in each state, the number of keys whose window is over, and the longest time for which the
-- window of a key has been over. It reads whole tables.
-- $1  current time; null means now()
SELECT
	(SELECT count(*) FROM crawler.exact_pending),
	(SELECT count(*) FROM crawler.exact_waiting),
	count(*) FILTER (WHERE o.state = 'done'),
	count(*) FILTER (WHERE o.state = 'failed'),
	count(*) FILTER (WHERE k.expires <= coalesce($1::timestamptz, now())),
	coalesce($1, now()) - min(k.expires) FILTER (WHERE k.expires <= coalesce($1, now()))
FROM crawler.exact_key AS k
JOIN crawler.exact_outcome AS o ON o.letter = k.outcome;
