// A client made with the official TypeScript SDK of the first line, which speaks the legacy
// era only. The words start the server, or one URL says where it listens; if that ends in `/sse`,
// the old HTTP+SSE is spoken.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { talk } from "./talk.mjs";

const [command, ...args] = process.argv.slice(2);
const over = (url) =>
  url.pathname.endsWith("/sse") ? new SSEClientTransport(url) : new StreamableHTTPClientTransport(url);
const transport = command.startsWith("http:")
  ? over(new URL(command))
  : new StdioClientTransport({ command, args });
const client = new Client({ name: "interop", version: "1" });
await client.connect(transport);
await client.ping();
await talk(client);
await transport.terminateSession?.();
await client.close();
