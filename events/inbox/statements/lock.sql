-- lock.sql: lock an event for its attempt. It returns no row if the event is gone, is a dead letter, or another attempt
-- has begun.
-- $1  group   $2  id   $3  number of the attempt
SELECT true
FROM inbox.stored
WHERE grp = $1 AND id = $2 AND attempts = $3 AND dead IS NULL
FOR UPDATE;
