-- schema_version.sql: the newest migration that a database has had, 0 for none.
SELECT coalesce(max(version_id) FILTER (WHERE is_applied), 0)
FROM crawler.migration;
