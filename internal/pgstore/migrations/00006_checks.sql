-- 00006_checks.sql: the outcomes of checks of links that lead out of the scope.
-- +goose Up

INSERT INTO crawler.exact_outcome (letter, name, state) VALUES
	('k', 'check_ok', 'done'),
	('x', 'check_broken', 'done'),
	('u', 'check_unknown', 'done');
