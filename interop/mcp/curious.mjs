// What a client of either line of the TypeScript SDK answers to a server that asks, and the one
// call about which it does.
import assert from "node:assert/strict";

export const capabilities = { elicitation: {}, sampling: {}, roots: {} };

export const answers = {
  "elicitation/create": { action: "accept", content: { name: "Ada" } },
  "sampling/createMessage": { role: "assistant", model: "none", content: { type: "text", text: "Hello" } },
  "roots/list": { roots: [{ uri: "file:///home" }] },
};

export async function ask(client, tool, want) {
  const { content } = await client.callTool({ name: tool, arguments: {} });
  assert.deepEqual(content, [{ type: "text", text: want }]);
}
