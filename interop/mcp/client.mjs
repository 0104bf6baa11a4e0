// A client made with the official TypeScript SDK, in both eras. The words start the server, or
// one URL says where it listens.
import assert from "node:assert/strict";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { talk } from "./talk.mjs";

const [command, ...args] = process.argv.slice(2);
for (const [mode, version] of [
  ["legacy", "2025-11-25"],
  ["auto", "2026-07-28"],
]) {
  const transport = command.startsWith("http:")
    ? new StreamableHTTPClientTransport(new URL(command))
    : new StdioClientTransport({ command, args });
  const client = new Client({ name: "interop", version: "1" }, { versionNegotiation: { mode } });
  await client.connect(transport);
  assert.equal(client.getNegotiatedProtocolVersion(), version);
  await talk(client);
  await client.close();
}
