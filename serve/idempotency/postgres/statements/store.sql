-- store.sql: store an answer. It replaces an expired row, and the slot of an issued key.
-- $1  id   $2  digest   $3  status   $4  header, as JSON   $5  body   $6  time to live in microseconds
-- $7  current time; null means clock_timestamp()
-- The caller has the lock of lock.sql.
INSERT INTO idempotency.answer (id, digest, status, header, body, expires)
VALUES ($1::bytea, $2::bytea, $3::int, $4::text, $5::bytea,
	coalesce($7::timestamptz, clock_timestamp()) + $6::bigint * interval '1 microsecond')
ON CONFLICT (id) DO UPDATE SET digest = excluded.digest, status = excluded.status, header = excluded.header,
	body = excluded.body, expires = excluded.expires;
