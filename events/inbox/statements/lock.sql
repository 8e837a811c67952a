-- lock.sql: lock an event for its attempt; no row if another attempt has begun or the event is gone.
-- $1  group   $2  id   $3  the attempt
SELECT true
FROM inbox.stored
WHERE grp = $1 AND id = $2 AND attempts = $3 AND dead IS NULL
FOR UPDATE;
