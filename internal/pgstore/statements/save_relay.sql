-- save_relay.sql: store the cursor of a new or known relay, and the events that its sink refused.
-- $1  crawl   $2  name of the relay   $3  cursor
-- $4  ids of events   $5  events   $6  reasons   $7  times, parallel arrays
-- An event whose id is stored already is ignored. If an id occurs several times, the first event is stored.
WITH moved AS (
	INSERT INTO crawler.relay (crawl, name, cursor)
	VALUES ($1, $2, $3)
	ON CONFLICT (crawl, name) DO UPDATE SET cursor = excluded.cursor, moved = now()
	RETURNING crawl, name
)
INSERT INTO crawler.dead_letter (crawl, relay, id, event, reason, refused)
SELECT m.crawl, m.name, t.id, t.event::json, t.reason, t.refused
FROM moved AS m
CROSS JOIN unnest($4::text[], $5::text[], $6::text[], $7::timestamptz[]) WITH ORDINALITY AS t(id, event, reason, refused, n)
ORDER BY t.n
ON CONFLICT (crawl, relay, id) DO NOTHING;
