-- schema_version.sql: the number of the newest migration that was applied, or 0 for none.
SELECT coalesce(max(version_id) FILTER (WHERE is_applied), 0)
FROM crawler.migration;
