-- stats.sql: the microseconds since the oldest expired row expired; 0 if there is none.
-- $1  current time; null means now()
SELECT coalesce((extract(epoch FROM coalesce($1::timestamptz, now()) - min(expires)) * 1000000)::bigint, 0)
FROM idempotency.answer
WHERE expires <= coalesce($1, now());
