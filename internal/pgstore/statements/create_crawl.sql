-- create_crawl.sql: create a crawl and its tables, unless there is a crawl with this name.
-- $1  name   $2  identity   $3  card, null for none   $4, $5  classes with a window, and the lengths of these windows
SELECT crawler.create_crawl($1, $2, $3, $4, $5);
