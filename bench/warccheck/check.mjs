// check.mjs reads WARC files with warcio and prints one line for each record that
// warcio finds, in the order of the files. The line is a JSON object.
//   node check.mjs FILE...
// payload is the SHA-256 of the payload as it was sent; body is that of the payload without
// transfer and content codings. body is empty if the record is truncated, or has another
// content coding than gzip.
// Warnings of warcio are errors here.
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { WARCParser } from "warcio";

console.warn = (...what) => {
  throw new Error(what.join(" "));
};

const sum = (bytes) => createHash("sha256").update(bytes).digest("hex");

for (const file of process.argv.slice(2)) {
  const parser = new WARCParser(createReadStream(file));
  for await (const record of parser) {
    const truncated = record.warcHeader("WARC-Truncated") !== null;
    const payload = await record.readFully(false);
    const offset = parser.offset;
    const coding = record.httpHeaders?.headers.get("Content-Encoding") ?? "gzip";
    console.log(JSON.stringify({
      file,
      offset,
      type: record.warcType,
      id: record.warcHeader("WARC-Record-ID"),
      url: record.warcTargetURI ?? "",
      status: record.httpHeaders && record.warcType === "response" ? record.httpHeaders.statusCode : 0,
      payload: sum(payload),
      body: truncated || coding !== "gzip" ? "" : sum(await record.readFully(true)),
    }));
  }
}
