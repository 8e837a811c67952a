-- 00008_dropped.sql: the outcome of a URL that a later policy refuses.
-- +goose Up

INSERT INTO crawler.exact_outcome (letter, name, state) VALUES ('v', 'dropped', 'failed');
