-- lock_relay.sql: have a relay for this connection alone; false: another has it.
-- $1  crawl   $2  name of the relay
SELECT pg_try_advisory_lock($1::int, hashtext($2::text));
