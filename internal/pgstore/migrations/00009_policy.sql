-- 00009_policy.sql: the versions of the policies of crawls.
-- +goose Up

CREATE TABLE crawler.policy (
	crawl   int NOT NULL REFERENCES crawler.crawl ON DELETE CASCADE,
	number  bigint NOT NULL,
	version text NOT NULL,
	PRIMARY KEY (crawl, number)
);
COMMENT ON TABLE crawler.policy IS 'the versions of the policies of crawls; Redis has copies';
COMMENT ON COLUMN crawler.policy.version IS 'JSON: time, who, why, changes, and the values of all settings that were ever changed';

-- Whoever may read or write relays may do so with policies.
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
		EXECUTE format('GRANT %s ON crawler.policy TO %s', grant_.privilege_type, grant_.grantee);
	END LOOP;
END
$$;
-- +goose StatementEnd
