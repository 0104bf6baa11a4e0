// An MCP server made with the official TypeScript SDK of the first line: legacy era only, and
// over HTTP with a session for every client.
//
//     server-v1.mjs           on standard input and output
//     server-v1.mjs http      at a free port, told in the first line of standard output
//     server-v1.mjs sse       likewise, by the old HTTP+SSE
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { SSEServerTransport } from "@modelcontextprotocol/sdk/server/sse.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { offer } from "./tools.mjs";

// Asks the user, the model and for folders, one after the other.
function curious(server) {
  const name = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
  const content = { type: "text", text: "Greet" };
  server.registerTool("curious", {}, async ({ requestId }) => {
    // On the stream of the call: one of its own need not be open yet.
    const there = { relatedRequestId: requestId };
    const asked = { message: "Who are you?", requestedSchema: name };
    const answer = await server.server.elicitInput(asked, there);
    const sampled = { messages: [{ role: "user", content }], maxTokens: 50 };
    const greeting = await server.server.createMessage(sampled, there);
    const { roots } = await server.server.listRoots(undefined, there);
    const text = `${greeting.content.text} ${answer.content.name} of ${roots[0].uri}`;
    return { content: [{ type: "text", text }] };
  });
  return server;
}
const make = () => curious(offer(new McpServer({ name: "foreign", version: "1.2.3" })));

if (process.argv[2] === "http") {
  const sessions = new Map();
  const listener = createServer(async (request, response) => {
    let transport = sessions.get(request.headers["mcp-session-id"]);
    if (!transport) {
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => sessions.set(id, transport),
      });
      await make().connect(transport);
    }
    await transport.handleRequest(request, response);
  });
  listener.listen(0, "127.0.0.1", () => {
    console.log(`listening on http://127.0.0.1:${listener.address().port}/mcp`);
  });
} else if (process.argv[2] === "sse") {
  const sessions = new Map();
  const listener = createServer(async (request, response) => {
    const url = new URL(request.url, "http://localhost");
    if (request.method === "GET" && url.pathname === "/sse") {
      const transport = new SSEServerTransport("/messages", response);
      sessions.set(transport.sessionId, transport);
      response.on("close", () => sessions.delete(transport.sessionId));
      return await make().connect(transport);
    }
    const transport = sessions.get(url.searchParams.get("sessionId"));
    if (request.method === "POST" && url.pathname === "/messages" && transport) {
      return await transport.handlePostMessage(request, response);
    }
    response.writeHead(404).end("Not Found");
  });
  listener.listen(0, "127.0.0.1", () => {
    console.log(`listening on http://127.0.0.1:${listener.address().port}/sse`);
  });
} else {
  await make().connect(new StdioServerTransport());
}
