-- reserve.sql: store the slot of an issued key, and return when it will expire.
-- $1  id   $2  time to live in microseconds   $3  current time; null means now()
INSERT INTO idempotency.answer (id, expires)
VALUES ($1::bytea, coalesce($3::timestamptz, now()) + $2::bigint * interval '1 microsecond')
RETURNING expires;
