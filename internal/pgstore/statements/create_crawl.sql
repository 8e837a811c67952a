-- create_crawl.sql: make a crawl and its tables, unless there is one of that name.
-- $1  name   $2  identity   $3  card, null for none   $4, $5  classes that have a window, and how long each is
SELECT crawler.create_crawl($1, $2, $3, $4, $5);
