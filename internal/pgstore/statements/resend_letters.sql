-- resend_letters.sql: mark dead letters that the relay is to send again.
-- $1  crawl   $2  name of the relay   $3  ids of their events; null means all dead letters of the relay
UPDATE crawler.dead_letter SET resend = true
WHERE crawl = $1 AND relay = $2 AND ($3::text[] IS NULL OR id = ANY($3));
