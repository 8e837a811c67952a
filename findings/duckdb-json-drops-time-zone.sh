#!/usr/bin/env bash
# DuckDB reads the same column of times from CSV with their zone and from JSON without it.
#
# Versions: @duckdb/node-api 1.5.6-r.1 (DuckDB 1.5.6), from npm
# Behaviour: read_csv finds the type TIMESTAMP WITH TIME ZONE for RFC 3339 times with Z or an offset. read_json finds
#   TIMESTAMP for the same texts: it converts them to UTC and drops the zone, without a warning. So a comparison with now(),
#   or a join of one crawl in CSV and another in JSON, is wrong by the offset of the session's time zone. If some times of the
#   column have a fraction of a second and others have none, the type is VARCHAR in JSON.
# Seen on 2026-11-30:
#   csv:  TIMESTAMP WITH TIME ZONE, TIMESTAMP WITH TIME ZONE; equal to the instant: true
#   json: TIMESTAMP, TIMESTAMP; equal to the instant: false
#   json, some with a fraction: VARCHAR
# Exits with 1 if this has changed.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private": true, "type": "module", "dependencies": {"@duckdb/node-api": "1.5.6-r.1"}}' >package.json
npm install --ignore-scripts --no-audit --no-fund >npm.log 2>&1 || { cat npm.log; exit 2; }
echo '{"z": "2026-11-30T12:00:00Z", "o": "2026-11-30T14:00:00+02:00"}' >times.json
printf '{"t": "2026-11-30T12:00:00Z"}\n{"t": "2026-11-30T12:00:00.5Z"}\n' >fractions.json
printf 'z,o\n2026-11-30T12:00:00Z,2026-11-30T14:00:00+02:00\n' >times.csv
cat >ask.mjs <<'END'
import { DuckDBInstance } from '@duckdb/node-api'
const db = await (await DuckDBInstance.create(':memory:')).connect()
await db.run("SET TimeZone = 'Asia/Tokyo'")
for (const [name, table] of [['csv: ', "read_csv('times.csv')"], ['json:', "read_json('times.json')"]]) {
  const types = (await db.runAndReadAll(`SELECT column_type FROM (DESCRIBE SELECT * FROM ${table})`)).getRows().join(', ')
  const [[same]] = (await db.runAndReadAll(`SELECT z = TIMESTAMPTZ '2026-11-30 12:00:00+00' FROM ${table}`)).getRows()
  console.log(`${name} ${types}; equal to the instant: ${same}`)
}
const [[mixed]] = (await db.runAndReadAll("SELECT column_type FROM (DESCRIBE SELECT * FROM read_json('fractions.json'))")).getRows()
console.log(`json, some with a fraction: ${mixed}`)
END
node ask.mjs | tee got
cat >want <<'END'
csv:  TIMESTAMP WITH TIME ZONE, TIMESTAMP WITH TIME ZONE; equal to the instant: true
json: TIMESTAMP, TIMESTAMP; equal to the instant: false
json, some with a fraction: VARCHAR
END
diff want got && exit 0
echo "the behaviour has changed" >&2
exit 1
