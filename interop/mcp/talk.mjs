// What a client of either line of the TypeScript SDK asks, and what it must hear.
import assert from "node:assert/strict";

export async function talk(client) {
  const { tools } = await client.listTools();
  assert(["add", "fail"].every((name) => tools.some((tool) => tool.name === name)));

  const call = (name, args) => client.callTool({ name, arguments: args });
  assert.deepEqual((await call("add", { a: 1, b: 2 })).content, [{ type: "text", text: "3" }]);
  const failed = await call("fail", { message: "oops" });
  assert.equal(failed.isError, true);
  assert.match(failed.content[0].text, /oops/);

  const many = [...Array(100).keys()].map((n) => call("add", { a: n, b: n }));
  const sums = (await Promise.all(many)).map(({ content }) => Number(content[0].text));
  assert.deepEqual(sums, [...Array(100).keys()].map((n) => 2 * n));
}
