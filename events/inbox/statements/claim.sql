-- claim.sql: of the events of a type, choose the one that is due first, and begin its next attempt. The statement is a
-- transaction of its own. So the attempt counts even if the process ends before the handler has returned.
-- $1  group   $2  type   $3  maximum number of attempts
-- $4  back-off after the first attempt, in microseconds   $5  maximum back-off, in microseconds
-- $6  current time; null means now()   $7  maximum duration of an attempt, in microseconds
-- If an event has had $3 attempts and the last one never ended, the event becomes a dead letter. If the process ends
-- during the new attempt, the attempt after it is due when both the back-off and $7 have passed. Before that time no
-- other worker claims the event, although the event is not locked between this statement and lock.sql.
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
