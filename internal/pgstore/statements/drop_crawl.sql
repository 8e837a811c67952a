-- drop_crawl.sql: remove a crawl and its tables. It returns false if there is no crawl with this name.
-- $1  name
SELECT crawler.drop_crawl($1);
