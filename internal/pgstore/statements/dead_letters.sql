-- dead_letters.sql: the events that a relay's sink refused, oldest first.
-- $1  crawl   $2  name of the relay
SELECT event, reason, refused, resend
FROM crawler.dead_letter
WHERE crawl = $1 AND relay = $2
ORDER BY number;
