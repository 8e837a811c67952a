-- 00014_resend.sql: the mark of dead letters that the relay is to send again.
-- +goose Up

ALTER TABLE crawler.dead_letter ADD COLUMN resend boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN crawler.dead_letter.resend IS 'the relay sends the event again';
