-- stats.sql: counts of the stored events of a group, how long the oldest expired mark of any group has waited for
-- its deletion, and the number of expired marks.
-- $1  group   $2  current time; null means now()
SELECT
	(SELECT count(*) FROM inbox.stored WHERE grp = $1 AND dead IS NULL),
	(SELECT count(*) FROM inbox.stored WHERE grp = $1 AND dead IS NOT NULL),
	(SELECT min(stored) FROM inbox.stored WHERE grp = $1 AND dead IS NULL),
	(extract(epoch FROM coalesce($2::timestamptz, now()) - min(expires)) * 1000000)::bigint,
	count(*)
FROM inbox.seen
WHERE expires <= coalesce($2, now());
