-- 00004_coding.sql: the outcome of a body that cannot be unpacked.
-- +goose Up

INSERT INTO crawler.exact_outcome (letter, name, state) VALUES ('p', 'coding', 'done');
