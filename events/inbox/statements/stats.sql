-- stats.sql: what a group has stored, and for how long expired marks have waited to be deleted.
-- $1  group   $2  time, null for the server's
SELECT
	(SELECT count(*) FROM inbox.stored WHERE grp = $1 AND dead IS NULL),
	(SELECT count(*) FROM inbox.stored WHERE grp = $1 AND dead IS NOT NULL),
	(SELECT min(stored) FROM inbox.stored WHERE grp = $1 AND dead IS NULL),
	(extract(epoch FROM coalesce($2::timestamptz, now()) - min(expires)) * 1000000)::bigint
FROM inbox.seen
WHERE expires <= coalesce($2, now());
