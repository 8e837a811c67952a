-- identity.sql: the id of these tables, and the version of their schema.
SELECT i.id::text, (SELECT max(version_id) FROM inbox.migration WHERE is_applied)
FROM inbox.identity AS i;
