-- release_relay.sql: end the hold of a relay. It returns whether the term is still that of the relay, and whether the
-- crawl exists.
-- $1  crawl   $2  name of the relay   $3  term
WITH released AS (
	UPDATE crawler.relay SET holder = ''
	WHERE crawl = $1 AND name = $2 AND term = $3
	RETURNING 1
)
SELECT EXISTS (SELECT FROM released), EXISTS (SELECT FROM crawler.crawl WHERE id = $1);
