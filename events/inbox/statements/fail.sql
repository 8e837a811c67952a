-- fail.sql: store why an attempt failed, and when the next attempt is due. It returns whether the event is a dead
-- letter now. It returns no row if the event is gone, was a dead letter before, or another attempt has begun.
-- $1  group   $2  id   $3  number of the attempt   $4  maximum number of attempts
-- $5  back-off after the first attempt, in microseconds   $6  maximum back-off, in microseconds
-- $7  current time; null means now()   $8  reason   $9  true to make no further attempt
UPDATE inbox.stored
SET due = coalesce($7::timestamptz, now())
		+ least($6::float8, $5::float8 * 2 ^ least(attempts - 1, 40)) * (1 + random() / 4) * interval '1 microsecond',
	dead = CASE WHEN $9::bool OR attempts >= $4 THEN coalesce($7, now()) END,
	reason = $8
WHERE grp = $1 AND id = $2 AND attempts = $3 AND dead IS NULL
RETURNING dead IS NOT NULL;
