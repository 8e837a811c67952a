-- notify.sql: wake up the relays of a crawl.
-- It runs in a separate transaction, because transactions with notifications commit one after the other.
-- $1  crawl
SELECT pg_notify('crawler_record_' || $1::int, '');
