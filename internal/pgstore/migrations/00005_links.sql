-- 00005_links.sql: the links of the pages whose records are in Postgres.
-- Each crawl, also an older one, gets a fifth table: crawler.link_N.
-- +goose Up

CREATE TABLE crawler.link (
	fingerprint uuid NOT NULL,
	round       int NOT NULL,
	part        int NOT NULL,
	line        json NOT NULL,
	PRIMARY KEY (fingerprint, round, part)
);
COMMENT ON TABLE crawler.link IS 'the links of pages: a row for up to 1,000 links of a page; the record of the page was inserted in the same transaction';
COMMENT ON COLUMN crawler.link.part IS 'counts the rows of a page from 0';
COMMENT ON COLUMN crawler.link.line IS 'source, id, round, part and links, as in the files of links; json keeps every byte, jsonb would refuse some characters';

-- Whoever may read or write records may do so with links.
-- +goose StatementBegin
DO $$
DECLARE
	grant_ record;
	crawl  int;
BEGIN
	FOR grant_ IN
		SELECT a.privilege_type, coalesce(quote_ident(r.rolname), 'PUBLIC') AS grantee
		FROM pg_class c CROSS JOIN aclexplode(c.relacl) AS a LEFT JOIN pg_roles r ON r.oid = a.grantee
		WHERE c.oid = 'crawler.record'::regclass AND a.grantee <> c.relowner
	LOOP
		EXECUTE format('GRANT %s ON crawler.link TO %s', grant_.privilege_type, grant_.grantee);
	END LOOP;
	FOR crawl IN SELECT id FROM crawler.crawl LOOP
		PERFORM crawler.copy_table('link', crawl, 'fillfactor = 100');
	END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION crawler.create_crawl(crawl_name text, crawl_identity text, crawl_card bytea, classes smallint[], windows interval[]) RETURNS void
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
	PERFORM crawler.copy_table('link', crawl, 'fillfactor = 100');
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION crawler.drop_crawl(crawl_name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	crawl int;
BEGIN
	DELETE FROM crawler.crawl WHERE name = crawl_name RETURNING id INTO crawl;
	IF crawl IS NULL THEN
		RETURN false;
	END IF;
	EXECUTE format('DROP TABLE crawler.%I, crawler.%I, crawler.%I, crawler.%I, crawler.%I', 'exact_key_' || crawl,
		'exact_waiting_' || crawl, 'exact_pending_' || crawl, 'record_' || crawl, 'link_' || crawl);
	RETURN true;
END
$$;
-- +goose StatementEnd
