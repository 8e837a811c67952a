-- claim.sql: of the events of a type, choose the one that is due first, and begin its next attempt. The statement
-- is a transaction of its own, so that an attempt counts even if its process ends.
-- $1  group   $2  type   $3  attempts at most   $4, $5  back-off after the first attempt and at most, in
-- microseconds   $6  time, null for the server's   $7  how long the attempt can take, in microseconds
-- An event whose last attempt never ended becomes a dead letter. If the process ends during this attempt, the next
-- one is due after the back-off or after $7, whichever is later. Before that time no other worker claims the event,
-- although this worker has not locked it yet.
UPDATE inbox.stored AS s
SET attempts = least(s.attempts + 1, $3),
	due = coalesce($6::timestamptz, now())
		+ greatest($7::float8, least($5::float8, $4::float8 * 2 ^ least(s.attempts, 40)) * (1 + random() / 4))
			* interval '1 microsecond',
	dead = CASE WHEN s.attempts >= $3 THEN coalesce($6, now()) END,
	reason = CASE WHEN s.attempts >= $3 THEN s.reason
		ELSE 'attempt ' || s.attempts + 1 || ' did not end: its process ended or lost the database' END
FROM (
	SELECT grp, id
	FROM inbox.stored
	WHERE dead IS NULL AND grp = $1 AND type = $2 AND due <= coalesce($6, now())
	ORDER BY due
	LIMIT 1
	FOR UPDATE SKIP LOCKED
) AS next
WHERE s.grp = next.grp AND s.id = next.id
RETURNING s.id, s.data, s.stored, s.attempts, s.dead IS NOT NULL;
