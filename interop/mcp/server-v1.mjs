// An MCP server made with the official TypeScript SDK.
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";

const server = new McpServer({ name: "foreign", version: "1.2.3" });
const text = (text) => ({ content: [{ type: "text", text }] });

server.registerTool("add", { inputSchema: { a: z.number(), b: z.number() } }, async ({ a, b }) =>
  text(String(a + b)),
);
server.registerTool("fail", { inputSchema: { message: z.string() } }, async ({ message }) => {
  throw new Error(message);
});
await server.connect(new StdioServerTransport());
