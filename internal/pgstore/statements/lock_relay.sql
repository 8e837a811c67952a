-- lock_relay.sql: lock a relay for this connection. It returns false if another connection has the lock.
-- $1  crawl   $2  name of the relay
SELECT pg_try_advisory_lock($1::int, hashtext($2::text));
