-- sweep.sql: delete expired rows, oldest first, and return their number.
-- $1  maximum number of rows   $2  current time; null means now()
-- Rows that another transaction has locked are skipped.
WITH deleted AS (
	DELETE FROM idempotency.answer
	WHERE ctid = ANY (ARRAY(
		SELECT ctid
		FROM idempotency.answer
		WHERE expires <= coalesce($2::timestamptz, now())
		ORDER BY expires
		LIMIT $1::int
		FOR UPDATE SKIP LOCKED
	))
	RETURNING 1
)
SELECT count(*) FROM deleted;
