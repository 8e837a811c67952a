-- find.sql: read the row of a request, if it has not expired.
-- $1  id   $2  current time; null means now()
SELECT digest, coalesce(status, 0), coalesce(header, '{}'), body
FROM idempotency.answer
WHERE id = $1::bytea AND expires > coalesce($2::timestamptz, now());
