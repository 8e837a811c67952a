-- sweep.sql: delete a batch of expired marks of all groups, oldest first. It returns the number of deleted marks, the
-- microseconds since the earliest of them expired, and the time at which the latest of them expired.
-- $1  maximum number of marks   $2  current time; null means now()
-- $3  marks that expired before this time are not deleted; null means no limit
-- Marks that another transaction has locked are skipped. The caller sets $3 to the time that the statement returned
-- for the previous batch. Without $3, each batch would read the index from its beginning, past all entries that were
-- deleted before.
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
