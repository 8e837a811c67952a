-- sweep.sql: delete some expired marks of all groups, oldest first. It returns the number of
-- deleted marks, the microseconds since the first of them expired, and the time at which the last one expired.
-- $1  how many at most   $2  time, null for the server's   $3  where to begin, null for the oldest
-- Marks that another transaction is renewing are skipped. $3 is where the last batch ended. Without it, each batch
-- would read the index from its beginning, past all entries that were deleted before.
WITH deleted AS (
	DELETE FROM inbox.seen
	WHERE ctid = ANY (ARRAY(
		SELECT ctid
		FROM inbox.seen
		WHERE expires <= coalesce($2::timestamptz, now()) AND expires >= coalesce($3::timestamptz, '-infinity')
		ORDER BY expires
		LIMIT $1
		FOR UPDATE SKIP LOCKED
	))
	RETURNING expires
)
SELECT count(*), (extract(epoch FROM coalesce($2, now()) - min(expires)) * 1000000)::bigint, max(expires)
FROM deleted;
