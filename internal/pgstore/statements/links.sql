-- links.sql: the next links, by fingerprint, round and part.
-- $1, $2, $3  fingerprint, round and part after which the links begin   $4  maximum number of rows
SELECT fingerprint, round, part, line::text
FROM crawler.link
WHERE (fingerprint, round, part) > ($1, $2, $3)
ORDER BY fingerprint, round, part
LIMIT $4;
