-- windows.sql: how long finished keys count as seen, by class.
-- $1  crawl
SELECT class, length
FROM crawler.exact_window
WHERE crawl = $1;
