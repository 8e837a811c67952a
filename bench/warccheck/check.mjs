// check.mjs reads WARC files with warcio and prints one line for each record that
// warcio finds, in the order of the files. The line is a JSON object.
//   node check.mjs FILE...
// body is the SHA-256 of the payload without transfer and content codings; it is
// empty if the record is truncated.
// Warnings of warcio are errors here.
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { WARCParser } from "warcio";

console.warn = (...what) => {
  throw new Error(what.join(" "));
};

for (const file of process.argv.slice(2)) {
  const parser = new WARCParser(createReadStream(file));
  for await (const record of parser) {
    const body = createHash("sha256");
    const truncated = record.warcHeader("WARC-Truncated") !== null;
    if (!truncated) for await (const part of record.contentReader) body.update(part);
    const offset = parser.offset;
    await record.skipFully();
    console.log(JSON.stringify({
      file,
      offset,
      type: record.warcType,
      id: record.warcHeader("WARC-Record-ID"),
      url: record.warcTargetURI ?? "",
      status: record.httpHeaders && record.warcType === "response" ? record.httpHeaders.statusCode : 0,
      body: truncated ? "" : body.digest("hex"),
    }));
  }
}
