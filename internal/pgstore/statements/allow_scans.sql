-- allow_scans.sql: let one transaction read tables from end to end.
-- $1  timeout of a statement in this transaction, in milliseconds
SELECT set_config('statement_timeout', $1::bigint::text, true), set_config('enable_seqscan', 'on', true),
	set_config('enable_hashjoin', 'on', true),
	set_config('plan_cache_mode', 'force_custom_plan', true), set_config('idle_in_transaction_session_timeout', '0', true);
