-- lag.sql: the longest time for which the window of a key has been over, or null if no window is over.
-- $1  current time; null means now()
SELECT coalesce($1::timestamptz, now()) - min(expires)
FROM crawler.exact_key
WHERE expires <= coalesce($1, now());
