// The tools of the servers in TypeScript, whatever line of the SDK they are made with.
import { z } from "zod";

export function offer(server) {
  const text = (text) => ({ content: [{ type: "text", text }] });
  const sum = z.object({ a: z.number(), b: z.number() });
  server.registerTool("add", { inputSchema: sum }, async ({ a, b }) => text(String(a + b)));
  server.registerTool("fail", { inputSchema: z.object({ message: z.string() }) }, async ({ message }) => {
    throw new Error(message);
  });
  return server;
}
