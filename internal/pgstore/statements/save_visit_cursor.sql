-- save_visit_cursor.sql: store how far the rows follow the records of a worker, in the transaction that writes these rows.
-- $1  crawl   $2  where the records are from   $3  cursor
INSERT INTO crawler.visit_cursor (crawl, source, cursor) VALUES ($1, $2, $3)
ON CONFLICT (crawl, source) DO UPDATE SET cursor = excluded.cursor;
