// A client of the official TypeScript SDK signs in to a front of ours: client.mjs URL
//
// All that it knows is the URL. The user agrees at once.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from "@modelcontextprotocol/client";

const kept = {};
let came;
const provider = {
  redirectUrl: "http://localhost:8126/callback",
  clientMetadata: {
    client_name: "interop",
    redirect_uris: ["http://localhost:8126/callback"],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
  },
  state: () => randomUUID() + randomUUID(),
  clientInformation: () => kept.client,
  saveClientInformation: (client) => void (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => void (kept.tokens = tokens),
  codeVerifier: () => kept.verifier,
  saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
  redirectToAuthorization: async (url) => {
    const answer = await fetch(url, { redirect: "manual" });
    came = new URL(answer.headers.get("location")).searchParams;
  },
};

const url = new URL(process.argv[2]);
const begin = () => new StreamableHTTPClientTransport(url, { authProvider: provider });
const client = () => new Client({ name: "interop", version: "1" });
const first = begin();
await assert.rejects(client().connect(first), UnauthorizedError);
await first.finishAuth(came);
const signedIn = client();
await signedIn.connect(begin());
const { content } = await signedIn.callTool({ name: "add", arguments: { a: 1, b: 2 } });
assert.deepEqual(content, [{ type: "text", text: "3" }]);
await signedIn.close();
