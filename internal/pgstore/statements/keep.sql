-- keep.sql: note how many URLs wait in a crawl's queue, unless another worker did a moment ago.
-- $1  crawl   $2  how many   $3  of these exact ones   $4  how old the last note is at least
UPDATE crawler.crawl
SET waited = $2, exact = $3, noted = now()
WHERE id = $1 AND (noted IS NULL OR noted <= now() - $4::interval);
