// A legacy client of a server that asks: TOOL WANT, then the words that start the server or its URL.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { answers, ask, capabilities } from "./curious.mjs";

const [tool, want, command, ...args] = process.argv.slice(2);
const transport = command.startsWith("http:")
  ? new StreamableHTTPClientTransport(new URL(command))
  : new StdioClientTransport({ command, args });
const client = new Client({ name: "interop", version: "1" }, { capabilities });
for (const schema of [CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema]) {
  client.setRequestHandler(schema, async ({ method }) => answers[method]);
}
await client.connect(transport);
await ask(client, tool, want);
await client.close();
