-- 00002_outbox.sql: records as an outbox: their order, the progress of relays, and a table for change data capture.
-- +goose Up

-- xid is the transaction that inserted the row, and sequence counts the rows of that transaction. Existing rows
-- get the xid 0, which is before all transactions, and sequences in the order in which they were fetched.
-- +goose StatementBegin
DO $$
DECLARE
	name text;
BEGIN
	FOR name IN SELECT 'record' UNION ALL SELECT 'record_' || id FROM crawler.crawl LOOP
		EXECUTE format('ALTER TABLE crawler.%I ADD COLUMN xid xid8 NOT NULL DEFAULT ''0'', ADD COLUMN sequence int NOT NULL DEFAULT 0', name);
		EXECUTE format('UPDATE crawler.%1$I AS r SET sequence = n.sequence
			FROM (SELECT fingerprint, round, row_number() OVER (ORDER BY fetched, fingerprint, round) AS sequence FROM crawler.%1$I) AS n
			WHERE r.fingerprint = n.fingerprint AND r.round = n.round', name);
		EXECUTE format('ALTER TABLE crawler.%I ALTER COLUMN xid SET DEFAULT pg_current_xact_id(), ALTER COLUMN sequence DROP DEFAULT', name);
		EXECUTE format('CREATE INDEX ON crawler.%I (xid, sequence)', name);
	END LOOP;
END
$$;
-- +goose StatementEnd
COMMENT ON COLUMN crawler.record.xid IS 'the transaction that inserted the row; with sequence, the order in which relays read';
COMMENT ON COLUMN crawler.record.sequence IS 'counts the rows of that transaction from 1';

CREATE TABLE crawler.relay (
	crawl  int NOT NULL REFERENCES crawler.crawl ON DELETE CASCADE,
	name   text NOT NULL,
	cursor text NOT NULL,
	moved  timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (crawl, name)
) WITH (fillfactor = 50);
COMMENT ON TABLE crawler.relay IS 'how far each relay has delivered the records of a crawl';
COMMENT ON COLUMN crawler.relay.cursor IS 'xid/sequence of a record; the sink has acknowledged this record and all before it';

CREATE TABLE crawler.dead_letter (
	crawl   int NOT NULL,
	relay   text NOT NULL,
	id      text NOT NULL,
	event   json NOT NULL,
	reason  text NOT NULL,
	refused timestamptz NOT NULL,
	number  bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
	PRIMARY KEY (crawl, relay, id),
	FOREIGN KEY (crawl, relay) REFERENCES crawler.relay ON DELETE CASCADE
);
COMMENT ON TABLE crawler.dead_letter IS 'events that a sink refused for good';

-- This table is always empty, because the transaction that inserts a row also deletes it. Readers of the write-ahead
-- log see the insert.
CREATE TABLE crawler.outbox (
	id            text PRIMARY KEY,
	aggregatetype text NOT NULL,
	aggregateid   text NOT NULL,
	type          text NOT NULL,
	payload       json NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
COMMENT ON TABLE crawler.outbox IS 'events on their way to change data capture, in the columns of Debezium''s outbox event router';
COMMENT ON COLUMN crawler.outbox.aggregatetype IS 'always page; Debezium puts it into the names of topics';
COMMENT ON COLUMN crawler.outbox.aggregateid IS 'the host key: events of one host stay in order';
