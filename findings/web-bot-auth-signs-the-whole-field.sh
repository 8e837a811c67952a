#!/usr/bin/env bash
# npm web-bot-auth 0.1.3 (with http-message-sig 0.2.0): a request that is signed for one member of Signature-Agent,
# "signature-agent";key="agent2", is refused.
#
# RFC 9421, 2.1.2: such a component has the value of that member of the Dictionary. The package takes the value of the
# whole field, agent2="https://…", and finds the signature invalid. The request is the Ed25519 example of
# draft-ietf-webbotauth-httpsig-protocol, which demands that the member is signed so. http-message-signatures 1.0.6
# verifies it.
#
# Seen:
#   web-bot-auth: invalid signature
#   http-message-signatures: true
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts web-bot-auth@0.1.3 http-message-sig@0.2.0 http-message-signatures@1.0.6 >/dev/null
cat >verify.mjs <<'JS'
import { createPublicKey, verify as verifyEd25519 } from "node:crypto";
import signatures from "http-message-signatures";
import { verify } from "web-bot-auth";
import { verifierFromJWK } from "web-bot-auth/crypto";

const jwk = { kty: "OKP", crv: "Ed25519", kid: "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U", x: "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs" };
const headers = {
  "Signature-Agent": 'agent2="https://signature-agent.test"',
  "Signature-Input": 'sig2=("@authority" "signature-agent";key="agent2");created=1735689600;keyid="poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";alg="ed25519";expires=4889289600;nonce="n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA==";tag="web-bot-auth"',
  "Signature": "sig2=:RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg==:",
};
const said = async (name, work) => console.log(`${name}: ${await work().catch((error) => error.message)}`);
await said("web-bot-auth", async () => verify(new Request("https://example.com/", { headers }), await verifierFromJWK(jwk)));
const key = createPublicKey({ key: jwk, format: "jwk" });
const keyLookup = async ({ keyid }) => ({ id: keyid, algs: ["ed25519"], verify: async (data, signature) => verifyEd25519(null, data, key, signature) });
await said("http-message-signatures", () => signatures.httpbis.verifyMessage({ keyLookup }, { method: "GET", url: "https://example.com/", headers }));
JS
seen=$(node verify.mjs)
echo "$seen"
[[ $seen == "web-bot-auth: invalid signature
http-message-signatures: true" ]]
