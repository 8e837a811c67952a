-- 00001_exact_tier.sql: crawls, templates of their tables, and functions that create and drop these tables.
-- A crawl has four tables of its own, crawler.exact_key_N and so on, where N is its id. They are
-- created like the templates and have the grants of the templates. They are not partitions of one
-- table, so that creating and dropping them locks nothing that another crawl uses.
-- +goose Up

CREATE TABLE crawler.crawl (
	id       int PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
	name     text NOT NULL UNIQUE,
	identity text NOT NULL,
	floor    int NOT NULL DEFAULT 0,
	created  timestamptz NOT NULL DEFAULT now(),
	card     bytea,
	waited   bigint,
	exact    bigint,
	noted    timestamptz
);
COMMENT ON COLUMN crawler.crawl.identity IS 'the id of the crawl in its queue; it prevents mixing the fingerprints of two crawls';
COMMENT ON COLUMN crawler.crawl.card IS 'data from which the queue can be made again; it contains the secret key of the fingerprints; null: none was stored';
COMMENT ON COLUMN crawler.crawl.waited IS 'how many URLs waited in the queue at the time in noted';
COMMENT ON COLUMN crawler.crawl.exact IS 'how many of the URLs in waited were exact';
COMMENT ON COLUMN crawler.crawl.floor IS 'round of new keys: 0 before the first sweep, then above the rounds of all swept keys';

CREATE TABLE crawler.exact_window (
	crawl  int NOT NULL REFERENCES crawler.crawl ON DELETE CASCADE,
	class  smallint NOT NULL,
	length interval NOT NULL,
	PRIMARY KEY (crawl, class)
);
COMMENT ON TABLE crawler.exact_window IS 'how long finished keys of a class count as seen; no row: for ever';

CREATE TABLE crawler.exact_outcome (
	letter "char" PRIMARY KEY,
	name   text NOT NULL UNIQUE,
	state  text NOT NULL
);
INSERT INTO crawler.exact_outcome (letter, name, state) VALUES
	('o', 'ok', 'done'), ('r', 'redirect', 'done'), ('c', 'client_error', 'done'),
	('b', 'robots', 'done'), ('a', 'address', 'done'), ('t', 'type', 'done'),
	('s', 'server_error', 'failed'), ('l', 'throttled', 'failed'), ('n', 'network', 'failed'),
	('h', 'host_dead', 'failed'), ('w', 'worker_lost', 'failed'), ('e', 'handler', 'failed');

-- The order of the columns leaves no gaps between them. A finished key without a window
-- takes 48 bytes: 24 for the header that Postgres adds, 16 for the fingerprint, 4 for
-- round, 2 for http, and 1 each for class and outcome.
CREATE TABLE crawler.exact_key (
	fingerprint uuid PRIMARY KEY,
	expires     timestamptz,
	round       int NOT NULL,
	http        smallint,
	class       "char" NOT NULL,
	outcome     "char"
);
CREATE INDEX ON crawler.exact_key (expires) WHERE expires IS NOT NULL;
COMMENT ON TABLE crawler.exact_key IS 'one row for each key, for as long as the key counts as seen';
COMMENT ON COLUMN crawler.exact_key.expires IS 'when the window of a finished key is over; null: never, or the key is not finished';
COMMENT ON COLUMN crawler.exact_key.class IS 'a hexadecimal digit';
COMMENT ON COLUMN crawler.exact_key.outcome IS 'see crawler.exact_outcome; null: the key waits to be fetched';

CREATE TYPE crawler.exact_finished AS (
	expires timestamptz,
	http    smallint,
	class   "char",
	outcome "char"
);

CREATE TABLE crawler.exact_waiting (
	fingerprint uuid PRIMARY KEY,
	depth       int NOT NULL,
	hops        smallint NOT NULL,
	priority    smallint NOT NULL,
	url         text NOT NULL
);
COMMENT ON TABLE crawler.exact_waiting IS 'what is needed to queue a key, while it waits to be fetched';

CREATE TABLE crawler.exact_pending (
	fingerprint uuid PRIMARY KEY,
	since       timestamptz NOT NULL,
	was         crawler.exact_finished
);
CREATE INDEX ON crawler.exact_pending (since);
COMMENT ON TABLE crawler.exact_pending IS 'the waiting keys that are not known to be queued';
COMMENT ON COLUMN crawler.exact_pending.since IS 'when the key was decided to be new, or when a relay last took it';
COMMENT ON COLUMN crawler.exact_pending.was IS 'the earlier state of a key whose window was over; null: the key had none';

CREATE TABLE crawler.record (
	fingerprint uuid NOT NULL,
	fetched     timestamptz NOT NULL,
	round       int NOT NULL,
	http        smallint,
	outcome     text NOT NULL,
	url         text NOT NULL,
	record      json NOT NULL,
	PRIMARY KEY (fingerprint, round)
);
COMMENT ON TABLE crawler.record IS 'records of URLs: of the exact URLs, or of all';
COMMENT ON COLUMN crawler.record.record IS 'the record as it was written; json keeps every byte, jsonb would refuse some characters';

-- +goose StatementBegin
CREATE FUNCTION crawler.copy_table(template text, crawl int, options text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	leaf  text := template || '_' || crawl;
	grant_ record;
BEGIN
	EXECUTE format('CREATE TABLE crawler.%I (LIKE crawler.%I INCLUDING ALL) WITH (%s)', leaf, template, options);
	FOR grant_ IN
		SELECT a.privilege_type, coalesce(quote_ident(r.rolname), 'PUBLIC') AS grantee
		FROM pg_class c CROSS JOIN aclexplode(c.relacl) AS a LEFT JOIN pg_roles r ON r.oid = a.grantee
		WHERE c.oid = format('crawler.%I', template)::regclass AND a.grantee <> c.relowner
	LOOP
		EXECUTE format('GRANT %s ON crawler.%I TO %s', grant_.privilege_type, leaf, grant_.grantee);
	END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION crawler.create_crawl(crawl_name text, crawl_identity text, crawl_card bytea, classes smallint[], windows interval[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	crawl int;
BEGIN
	INSERT INTO crawler.crawl (name, identity, card) VALUES (crawl_name, crawl_identity, crawl_card)
	ON CONFLICT (name) DO NOTHING
	RETURNING id INTO crawl;
	IF crawl IS NULL THEN
		RETURN; -- another worker has created the crawl
	END IF;
	INSERT INTO crawler.exact_window (crawl, class, length)
	SELECT crawl, w.class, w.length FROM unnest(classes, windows) AS w(class, length);
	PERFORM crawler.copy_table('exact_key', crawl, 'autovacuum_vacuum_scale_factor = 0.1');
	-- The rows of these two tables are deleted soon, so the tables are vacuumed early.
	PERFORM crawler.copy_table('exact_waiting', crawl, 'autovacuum_vacuum_scale_factor = 0.05');
	PERFORM crawler.copy_table('exact_pending', crawl, 'autovacuum_vacuum_scale_factor = 0.05');
	PERFORM crawler.copy_table('record', crawl, 'fillfactor = 100');
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION crawler.drop_crawl(crawl_name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	crawl int;
BEGIN
	DELETE FROM crawler.crawl WHERE name = crawl_name RETURNING id INTO crawl;
	IF crawl IS NULL THEN
		RETURN false;
	END IF;
	EXECUTE format('DROP TABLE crawler.%I, crawler.%I, crawler.%I, crawler.%I', 'exact_key_' || crawl,
		'exact_waiting_' || crawl, 'exact_pending_' || crawl, 'record_' || crawl);
	RETURN true;
END
$$;
-- +goose StatementEnd

REVOKE EXECUTE ON FUNCTION crawler.copy_table(text, int, text) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION crawler.create_crawl(text, text, bytea, smallint[], interval[]) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION crawler.drop_crawl(text) FROM PUBLIC;
