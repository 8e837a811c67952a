-- renew_relay.sql: show that the holder of a relay lives. It returns whether the term is still that of the relay, and
-- whether the crawl exists.
-- $1  crawl   $2  name of the relay   $3  term
WITH renewed AS (
	UPDATE crawler.relay SET beat = beat + 1
	WHERE crawl = $1 AND name = $2 AND term = $3
	RETURNING 1
)
SELECT EXISTS (SELECT FROM renewed), EXISTS (SELECT FROM crawler.crawl WHERE id = $1);
