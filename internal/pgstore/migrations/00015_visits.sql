-- 00015_visits.sql: the pages of crawls that visit them again.
-- +goose Up

INSERT INTO crawler.exact_outcome (letter, name, state) VALUES ('z', 'stale', 'done');

CREATE TABLE crawler.visits (
	crawl  int PRIMARY KEY REFERENCES crawler.crawl ON DELETE CASCADE,
	state  text,
	census bytea,
	leader text NOT NULL DEFAULT '',
	until  timestamptz NOT NULL DEFAULT '-infinity'
);
COMMENT ON TABLE crawler.visits IS 'what the pages of a crawl sum up to, and which worker queues those that are due';

CREATE TABLE crawler.visit (
	crawl   int NOT NULL REFERENCES crawler.crawl ON DELETE CASCADE,
	item    uuid NOT NULL,
	reached bigint NOT NULL,
	due     bigint NOT NULL,
	row     bytea,
	PRIMARY KEY (crawl, item)
);
CREATE INDEX visit_due ON crawler.visit (crawl, due) WHERE row IS NOT NULL;
CREATE INDEX visit_forgotten ON crawler.visit (crawl, due) WHERE row IS NULL;
COMMENT ON TABLE crawler.visit IS 'a page that is visited again';
COMMENT ON COLUMN crawler.visit.reached IS 'the latest round that a worker has completed';
COMMENT ON COLUMN crawler.visit.due IS 'seconds since 1970; of a forgotten page, when it was forgotten';
COMMENT ON COLUMN crawler.visit.row IS 'the last visits; null for a page that is forgotten';

CREATE TABLE crawler.visit_host (
	crawl   int NOT NULL REFERENCES crawler.crawl ON DELETE CASCADE,
	host    text NOT NULL,
	pages   bigint NOT NULL,
	queued  bigint NOT NULL,
	per_day float8 NOT NULL,
	rightly bigint NOT NULL,
	wrongly bigint NOT NULL,
	missed  bigint NOT NULL,
	PRIMARY KEY (crawl, host)
);
COMMENT ON TABLE crawler.visit_host IS 'what the pages of a host sum up to';
COMMENT ON COLUMN crawler.visit_host.rightly IS 'changes that a sitemap announced and a visit found';
COMMENT ON COLUMN crawler.visit_host.wrongly IS 'changes that a sitemap announced and a visit did not find';
COMMENT ON COLUMN crawler.visit_host.missed IS 'changes that a visit found although a sitemap said that there was none';

CREATE TABLE crawler.visit_cursor (
	crawl  int NOT NULL REFERENCES crawler.crawl ON DELETE CASCADE,
	source text NOT NULL,
	cursor text NOT NULL,
	PRIMARY KEY (crawl, source)
);
COMMENT ON TABLE crawler.visit_cursor IS 'how far the rows follow the records of each worker';

-- Whoever may read or write relays may do so with these tables.
-- +goose StatementBegin
DO $$
DECLARE
	grant_ record;
BEGIN
	FOR grant_ IN
		SELECT a.privilege_type, coalesce(quote_ident(r.rolname), 'PUBLIC') AS grantee
		FROM pg_class c CROSS JOIN aclexplode(c.relacl) AS a LEFT JOIN pg_roles r ON r.oid = a.grantee
		WHERE c.oid = 'crawler.relay'::regclass AND a.grantee <> c.relowner
	LOOP
		EXECUTE format('GRANT %s ON crawler.visits, crawler.visit, crawler.visit_host, crawler.visit_cursor TO %s', grant_.privilege_type, grant_.grantee);
	END LOOP;
END
$$;
-- +goose StatementEnd
