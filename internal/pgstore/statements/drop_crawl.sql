-- drop_crawl.sql: remove a crawl and its tables; false: there is none of that name.
-- $1  name
SELECT crawler.drop_crawl($1);
