-- retry.sql: make dead letters pending again. Their attempts are counted from 0 again.
-- $1  group   $2  ids of the events; an empty array means all dead letters of the group
-- $3  current time; null means now()
UPDATE inbox.stored
SET dead = NULL, attempts = 0, due = coalesce($3::timestamptz, now())
WHERE grp = $1 AND dead IS NOT NULL AND (cardinality($2::text[]) = 0 OR id = ANY($2));
