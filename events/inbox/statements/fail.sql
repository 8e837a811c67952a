-- fail.sql: store why an attempt failed, and when the next one is due; it returns true if the event is dead.
-- $1  group   $2  id   $3  the attempt   $4  attempts at most   $5, $6  back-off after the first attempt and at
-- most, in microseconds   $7  time, null for the server's   $8  reason   $9  whether no attempt will succeed
UPDATE inbox.stored
SET due = coalesce($7::timestamptz, now())
		+ least($6::float8, $5::float8 * 2 ^ least(attempts - 1, 40)) * (1 + random() / 4) * interval '1 microsecond',
	dead = CASE WHEN $9::bool OR attempts >= $4 THEN coalesce($7, now()) END,
	reason = $8
WHERE grp = $1 AND id = $2 AND attempts = $3 AND dead IS NULL
RETURNING dead IS NOT NULL;
