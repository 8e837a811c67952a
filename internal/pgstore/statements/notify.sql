-- notify.sql: wake up the relays of a crawl. In a transaction of its own: notifications serialise commits.
-- $1  crawl
SELECT pg_notify('crawler_record_' || $1::int, '');
