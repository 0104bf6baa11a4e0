// An MCP server made with the official TypeScript SDK, in both eras.
//
//     server.mjs           on standard input and output
//     server.mjs http      at a free port, told in the first line of standard output
import { createServer } from "node:http";
import { toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { offer } from "./tools.mjs";

const make = () => offer(new McpServer({ name: "foreign", version: "1.2.3" }));

if (process.argv[2] === "http") {
  const listener = createServer(toNodeHandler(createMcpHandler(make)));
  listener.listen(0, "127.0.0.1", () => {
    console.log(`listening on http://127.0.0.1:${listener.address().port}/mcp`);
  });
} else {
  serveStdio(make);
}
