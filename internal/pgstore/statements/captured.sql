-- captured.sql: remove the events that capture.sql wrote in the same transaction.
-- $1  ids
DELETE FROM crawler.outbox
WHERE id = ANY($1::text[]);
