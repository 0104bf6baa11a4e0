// A modern client of a server that asks: TOOL WANT, then the words that start the server or its URL.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { answers, ask, capabilities } from "./curious.mjs";

const [tool, want, command, ...args] = process.argv.slice(2);
const transport = command.startsWith("http:")
  ? new StreamableHTTPClientTransport(new URL(command))
  : new StdioClientTransport({ command, args });
const options = { capabilities, versionNegotiation: { mode: "auto" } };
const client = new Client({ name: "interop", version: "1" }, options);
for (const method of Object.keys(answers)) {
  client.setRequestHandler(method, async () => answers[method]);
}
await client.connect(transport);
await ask(client, tool, want);
await client.close();
