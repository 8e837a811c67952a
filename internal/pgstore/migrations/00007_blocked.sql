-- 00007_blocked.sql: the outcome of a page that a wall refuses.
-- +goose Up

INSERT INTO crawler.exact_outcome (letter, name, state) VALUES ('d', 'blocked', 'failed');
