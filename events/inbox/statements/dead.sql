-- dead.sql: the dead letters of a group, oldest first.
-- $1  group   $2  maximum number of dead letters
SELECT id, type, data, stored, attempts, dead, reason
FROM inbox.stored
WHERE grp = $1 AND dead IS NOT NULL
ORDER BY dead, id
LIMIT $2;
