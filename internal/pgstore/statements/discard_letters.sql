-- discard_letters.sql: remove dead letters of a relay.
-- $1  crawl   $2  name of the relay   $3  ids of their events; null means all dead letters of the relay
DELETE FROM crawler.dead_letter
WHERE crawl = $1 AND relay = $2 AND ($3::text[] IS NULL OR id = ANY($3));
