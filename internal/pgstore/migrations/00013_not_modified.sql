-- 00013_not_modified.sql: the outcome of a page that has not changed since its last visit.
-- +goose Up

INSERT INTO crawler.exact_outcome (letter, name, state) VALUES ('m', 'not_modified', 'done');
