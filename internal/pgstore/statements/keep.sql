-- keep.sql: store how many URLs wait in a crawl's queue, unless another worker has done so a moment ago.
-- $1  crawl   $2  number of URLs   $3  number of exact URLs among them
-- $4  minimum age of the stored numbers; younger numbers are not replaced
UPDATE crawler.crawl
SET waited = $2, exact = $3, noted = now()
WHERE id = $1 AND (noted IS NULL OR noted <= now() - $4::interval);
