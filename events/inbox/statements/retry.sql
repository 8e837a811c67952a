-- retry.sql: make dead letters pending again, with all their attempts.
-- $1  group   $2  ids, empty for all   $3  time, null for the server's
UPDATE inbox.stored
SET dead = NULL, attempts = 0, due = coalesce($3::timestamptz, now())
WHERE grp = $1 AND dead IS NOT NULL AND (cardinality($2::text[]) = 0 OR id = ANY($2));
