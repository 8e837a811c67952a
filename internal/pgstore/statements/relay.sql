-- relay.sql: how far a relay has delivered, how many events its sink refused, and how many of them it sends again.
-- $1  crawl   $2  name of the relay
SELECT cursor, moved, dead, resend
FROM crawler.relay AS r, LATERAL (
	SELECT count(*) AS dead, count(*) FILTER (WHERE resend) AS resend
	FROM crawler.dead_letter AS d WHERE d.crawl = r.crawl AND d.relay = r.name
) AS letters
WHERE crawl = $1 AND name = $2 AND cursor IS NOT NULL;
