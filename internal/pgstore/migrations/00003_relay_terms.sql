-- 00003_relay_terms.sql: who runs a relay.
-- +goose Up

ALTER TABLE crawler.relay
	ALTER COLUMN cursor DROP NOT NULL,
	ADD COLUMN term bigint NOT NULL DEFAULT 0,
	ADD COLUMN beat bigint NOT NULL DEFAULT 0,
	ADD COLUMN holder text NOT NULL DEFAULT '';
COMMENT ON COLUMN crawler.relay.cursor IS 'xid/sequence of a record; the sink has acknowledged this record and all before it. NULL: no cursor was saved yet';
COMMENT ON COLUMN crawler.relay.term IS 'counts the processes that have run the relay; an older one cannot move the cursor';
COMMENT ON COLUMN crawler.relay.beat IS 'counts the signs of life of the process that runs the relay';
COMMENT ON COLUMN crawler.relay.holder IS 'the process that runs the relay; empty if none does';
