-- finish.sql: delete an event that was handled, in the handler's transaction.
-- $1  group   $2  id
DELETE FROM inbox.stored
WHERE grp = $1 AND id = $2;
