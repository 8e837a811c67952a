-- lag.sql: since when the window of the oldest key that is left has been over; null: of none.
-- $1  time, null for the server's
SELECT coalesce($1::timestamptz, now()) - min(expires)
FROM crawler.exact_key
WHERE expires <= coalesce($1, now());
