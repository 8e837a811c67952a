-- schema.sql: create the tables, unless they exist. It runs under the lock of migrate_lock.sql.
CREATE TABLE IF NOT EXISTS idempotency.version (
	version int NOT NULL
);
COMMENT ON TABLE idempotency.version IS 'one row: the version of these tables';
INSERT INTO idempotency.version SELECT 1 WHERE NOT EXISTS (SELECT FROM idempotency.version);

CREATE TABLE IF NOT EXISTS idempotency.answer (
	id      bytea PRIMARY KEY,
	digest  bytea,
	status  int,
	header  text,
	body    bytea,
	expires timestamptz NOT NULL
);
COMMENT ON TABLE idempotency.answer IS 'answers of requests, and slots of issued keys';
COMMENT ON COLUMN idempotency.answer.id IS 'hash of caller, method, path and key; of caller and key for an issued key';
COMMENT ON COLUMN idempotency.answer.digest IS 'SHA-256 of the payload; null: the slot of an issued key, without a request';
COMMENT ON COLUMN idempotency.answer.header IS 'fields that a replay repeats: a JSON object of arrays';
COMMENT ON COLUMN idempotency.answer.expires IS 'from this time on the row counts as missing';
CREATE INDEX IF NOT EXISTS answer_expires ON idempotency.answer (expires);
