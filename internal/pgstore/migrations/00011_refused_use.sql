-- 00011_refused_use.sql: the outcome of a page whose owner refuses a use of the crawl.
-- +goose Up

INSERT INTO crawler.exact_outcome (letter, name, state) VALUES ('f', 'refused_use', 'done');
