-- 00010_lines.sql: which line of a submission decided that a waiting key is new.
-- +goose Up

ALTER TABLE crawler.exact_waiting ADD COLUMN line bytea;
COMMENT ON COLUMN crawler.exact_waiting.line IS 'names a line of a submission: a repeat of the submission may queue the key while it is pending; null: the key is not of a submission';

-- +goose StatementBegin
DO $$
DECLARE
	crawl int;
BEGIN
	FOR crawl IN SELECT id FROM crawler.crawl LOOP
		EXECUTE format('ALTER TABLE crawler.%I ADD COLUMN line bytea', 'exact_waiting_' || crawl);
	END LOOP;
END
$$;
-- +goose StatementEnd
