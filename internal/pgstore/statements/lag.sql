-- lag.sql: the time since the earliest end of a window of a key, or null if no window is over.
-- $1  time, null for the server's
SELECT coalesce($1::timestamptz, now()) - min(expires)
FROM crawler.exact_key
WHERE expires <= coalesce($1, now());
