-- lock.sql: try to lock a request until the transaction ends, and bound the time for which the transaction may be idle.
-- $1  id   $2  the bound in ms
-- The lock needs no row, and ends with the transaction: after a crash too, and through a pooler in transaction mode.
-- If the connection is lost without a sign, the bound ends the transaction.
SELECT pg_try_advisory_xact_lock(hashtextextended('idempotency.' || encode($1::bytea, 'hex'), 0)),
	set_config('idle_in_transaction_session_timeout', $2::text, true);
