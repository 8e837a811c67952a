-- discard.sql: delete dead letters. Their marks stay.
-- $1  group   $2  ids of the events; an empty array means all dead letters of the group
DELETE FROM inbox.stored
WHERE grp = $1 AND dead IS NOT NULL AND (cardinality($2::text[]) = 0 OR id = ANY($2));
