-- 00012_content.sql: the first page of a crawl with each content.
-- +goose Up

CREATE TABLE crawler.content (
	crawl   int NOT NULL REFERENCES crawler.crawl ON DELETE CASCADE,
	content bytea NOT NULL CHECK (length(content) = 16),
	first   bytea NOT NULL CHECK (length(first) = 8),
	PRIMARY KEY (crawl, content)
);
COMMENT ON TABLE crawler.content IS 'the first page of a crawl with each text';
COMMENT ON COLUMN crawler.content.content IS 'the first half of the SHA-256 of the text, also together with the links';
COMMENT ON COLUMN crawler.content.first IS 'id of the record';

-- Whoever may read or write relays may do so with contents.
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
		EXECUTE format('GRANT %s ON crawler.content TO %s', grant_.privilege_type, grant_.grantee);
	END LOOP;
END
$$;
-- +goose StatementEnd
