-- discard.sql: delete dead letters. Their marks stay.
-- $1  group   $2  ids, empty for all
DELETE FROM inbox.stored
WHERE grp = $1 AND dead IS NOT NULL AND (cardinality($2::text[]) = 0 OR id = ANY($2));
