// query.mjs runs SQL statements in DuckDB. It prints the first column of the result of
// the last statement, one row a line.
//   node query.mjs SQL...
import { DuckDBInstance } from "@duckdb/node-api";

const connection = await (await DuckDBInstance.create(":memory:")).connect();
let result;
for (const sql of process.argv.slice(2)) result = await connection.runAndReadAll(sql);
for (const row of result.getRows()) console.log(String(row[0]));
