-- 00001_inbox.sql: marks of handled events, and events that were stored to be handled.

CREATE TABLE inbox.identity (
	id uuid NOT NULL DEFAULT gen_random_uuid()
);
INSERT INTO inbox.identity DEFAULT VALUES;
COMMENT ON TABLE inbox.identity IS 'one row; the id is part of all keys of a cache, so that several databases can share the cache';

CREATE TABLE inbox.seen (
	grp     text COLLATE "C" NOT NULL,
	id      text COLLATE "C" NOT NULL,
	expires timestamptz,
	PRIMARY KEY (grp, id)
);
COMMENT ON TABLE inbox.seen IS 'the marks: events that a group has handled or stored';
COMMENT ON COLUMN inbox.seen.expires IS 'from this time on the event counts as unknown; null: never';
CREATE INDEX ON inbox.seen (expires) WHERE expires IS NOT NULL;

CREATE TABLE inbox.stored (
	grp      text COLLATE "C" NOT NULL,
	id       text COLLATE "C" NOT NULL,
	type     text COLLATE "C" NOT NULL,
	data     bytea NOT NULL,
	stored   timestamptz NOT NULL,
	attempts int NOT NULL DEFAULT 0,
	due      timestamptz NOT NULL,
	dead     timestamptz,
	reason   text NOT NULL DEFAULT '',
	PRIMARY KEY (grp, id)
);
COMMENT ON TABLE inbox.stored IS 'events that were not handled yet, and dead letters; a handled event is deleted';
COMMENT ON COLUMN inbox.stored.attempts IS 'number of attempts that have begun';
COMMENT ON COLUMN inbox.stored.due IS 'when the next attempt may begin';
COMMENT ON COLUMN inbox.stored.dead IS 'when the event became a dead letter; null: it is pending';
COMMENT ON COLUMN inbox.stored.reason IS 'why the last attempt failed';
CREATE INDEX ON inbox.stored (grp, type, due) WHERE dead IS NULL;
CREATE INDEX ON inbox.stored (grp, dead, id) WHERE dead IS NOT NULL;
