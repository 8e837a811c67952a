-- held_relay.sql: who runs a relay, with the number of times that it has shown that it lives.
-- $1  crawl   $2  name of the relay
SELECT term, beat, holder
FROM crawler.relay
WHERE crawl = $1 AND name = $2;
