-- remaining.sql: the time until a mark expires, in microseconds; null if it never expires.
-- $1  group   $2  id   $3  current time; null means now()
SELECT (extract(epoch FROM expires - coalesce($3::timestamptz, now())) * 1000000)::bigint
FROM inbox.seen
WHERE grp = $1 AND id = $2 AND (expires IS NULL OR expires > coalesce($3, now()));
