-- save_relay.sql: store the cursor of a relay, and the events that its sink refused. It returns whether the term is still
-- that of the relay, and whether the crawl exists. If the term is over, it stores nothing.
-- $1  crawl   $2  name of the relay   $3  term   $4  cursor
-- $5  ids of events   $6  events   $7  reasons   $8  times, parallel arrays
-- An event whose id is stored already is ignored. If an id occurs several times, the first event is stored.
WITH moved AS (
	UPDATE crawler.relay SET cursor = $4, moved = now(), beat = beat + 1
	WHERE crawl = $1 AND name = $2 AND term = $3
	RETURNING crawl, name
), refused AS (
	INSERT INTO crawler.dead_letter (crawl, relay, id, event, reason, refused)
	SELECT m.crawl, m.name, t.id, t.event::json, t.reason, t.refused
	FROM moved AS m
	CROSS JOIN unnest($5::text[], $6::text[], $7::text[], $8::timestamptz[]) WITH ORDINALITY AS t(id, event, reason, refused, n)
	ORDER BY t.n
	ON CONFLICT (crawl, relay, id) DO NOTHING
)
SELECT EXISTS (SELECT FROM moved), EXISTS (SELECT FROM crawler.crawl WHERE id = $1);
