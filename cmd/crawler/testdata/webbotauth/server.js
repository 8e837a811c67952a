// server.js DIRECTORY: a site for every host name, that answers 401 to requests without a valid signature. Signatures
// are verified with the package http-message-signatures, and keys with node:crypto. DIRECTORY has directory.json and
// directory.headers, as crawler key directory writes them; both must be signed, too. On stdout: the address, and a line
// of JSON for each request.
import { createHash, createPublicKey, verify } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import signatures from "http-message-signatures";

const { httpbis } = signatures;
const body = readFileSync(process.argv[2] + "/directory.json");
const header = Object.fromEntries(readFileSync(process.argv[2] + "/directory.headers", "utf8").trim().split("\n").map((line) => line.split(": ")));
const { keys } = JSON.parse(body);
const pages = 40;

// lookup finds a key that is valid now.
async function lookup({ keyid }) {
  const now = Date.now() / 1000;
  const key = keys.find((key) => key.kid === keyid);
  if (!key || now < key.nbf - 1 || (key.exp && now > key.exp + 1)) return null;
  const thumbprint = createHash("sha256").update(`{"crv":"${key.crv}","kty":"${key.kty}","x":"${key.x}"}`).digest("base64url");
  if (thumbprint !== keyid) return null;
  const publicKey = createPublicKey({ key, format: "jwk" });
  return { id: keyid, algs: ["ed25519"], verify: async (data, signature) => verify(null, data, publicKey, signature) };
}

// The directory itself, as an answer of https://bot.test.
const asked = { method: "GET", url: "https://bot.test/.well-known/http-message-signatures-directory", headers: {} };
const digest = `sha-256=:${createHash("sha256").update(body).digest("base64")}:`;
if (header["Content-Digest"] !== digest) throw new Error("the directory has another digest");
for (const label of header["Signature"].split(", ").map((member) => member.split("=")[0])) {
  const one = (name) => header[name].split(/, (?=binding)/).find((member) => member.startsWith(label + "="));
  const answer = { status: 200, headers: { ...header, "Signature": one("Signature"), "Signature-Input": one("Signature-Input") } };
  const anyTime = async ({ keyid }) => {
    const publicKey = createPublicKey({ key: keys.find((key) => key.kid === keyid), format: "jwk" });
    return { id: keyid, algs: ["ed25519"], verify: async (data, signature) => verify(null, data, publicKey, signature) };
  };
  if ((await httpbis.verifyMessage({ keyLookup: anyTime }, answer, asked)) !== true) throw new Error(`${label} of the directory is not valid`);
}

// problemOf says why a request is refused, or "".
async function problemOf(request) {
  const input = request.headers["signature-input"] ?? "";
  const created = Number(/;created=(\d+)/.exec(input)?.[1]);
  const expires = Number(/;expires=(\d+)/.exec(input)?.[1]);
  const now = Date.now() / 1000;
  if (!/;tag="web-bot-auth"$/.test(input)) return "no signature for web-bot-auth";
  if (created > now + 1 || now > expires || expires - created > 120) return `signed for the wrong time: ${created} to ${expires}, now ${now}`;
  if (!input.includes(`"signature-agent";key="sig1"`) || request.headers["signature-agent"] !== `sig1="https://bot.test"`) return "not for its agent";
  const reused = process.argv[3] === "reuse";
  if (!input.includes(`"@authority"`) || input.includes(`"@path"`) === reused) return `does not cover what it should: ${input}`;
  try {
    const message = { method: request.method, url: `http://${request.headers.host}${request.url}`, headers: request.headers };
    return (await httpbis.verifyMessage({ keyLookup: lookup, requiredFields: ["@authority"] }, message)) === true ? "" : "not valid";
  } catch (error) {
    return error.message;
  }
}

const nonces = new Map();
const server = createServer(async (request, answer) => {
  const problem = await problemOf(request);
  const { host, "signature-input": input = "", signature = "" } = request.headers;
  console.log(JSON.stringify({ host, url: request.url, problem, input, signature }));
  if (problem) return answer.writeHead(401).end(problem);
  if (request.url === "/robots.txt") return answer.writeHead(404).end();
  const n = Number(/^\/(\d+)/.exec(request.url)?.[1] ?? 0);
  if (n === 7) { // asks for a nonce
    const nonce = nonces.get(host) ?? "n+/\"" + host;
    nonces.set(host, nonce);
    if (!input.includes(`;nonce="${nonce.replaceAll('"', '\\"')}"`)) {
      answer.setHeader("Accept-Signature", `sig1=("@authority");created;keyid;nonce="${nonce.replaceAll('"', '\\"')}";tag="web-bot-auth"`);
      return answer.writeHead(403).end("want a nonce");
    }
  }
  if (n % 5 === 4 && !request.url.includes("?")) { // to another authority
    return answer.writeHead(302, { Location: `http://${host === "a.test" ? "b" : "a"}.test/${n}?to` }).end();
  }
  answer.writeHead(200, { "Content-Type": "text/html", "Set-Cookie": "session=from-the-site" });
  const next = [1, 2].map((k) => 2 * n + k).filter((n) => n < pages);
  answer.end(`<title>${host} ${n} ${request.url}</title>` + next.map((n) => `<a href="/${n}">x</a> <a href="http://b.test/${n}%41">y</a>`).join(""));
});
server.listen(0, "127.0.0.1", () => console.log(`127.0.0.1:${server.address().port}`));
