#!/usr/bin/env node
// An Orchard provider: `echo` gives its text back, `noop` does nothing.
import { createInterface } from "node:readline";

const schema = {
  name: "echo", version: "0.1.0", protocol: "1",
  config: { greeting: { type: "string", default: "", description: "word put first" } },
  actions: {
    echo: {
      description: "gives its text back",
      attrs: { text: { type: "string", required: true }, times: { type: "number", default: 1 } },
      outputs: { type: "object({text=string,times=number})" },
    },
    noop: { description: "does nothing" },
  },
};
let config = {};

class Refused extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

function execute(action, attrs) {
  if (!Object.hasOwn(schema.actions, action ?? "")) throw new Refused("unknown_action", `unknown action: ${action}`);
  if (action === "noop") return {};
  if (typeof attrs.text !== "string") throw new Refused("validation_failed", "text must be a string");
  const times = attrs.times ?? 1;
  const words = [config.greeting, ...Array(times).fill(attrs.text)];
  return { text: words.filter(Boolean).join(" "), times };
}

function answer({ method, params }) {
  if (method === "describe") return { schema };
  if (method === "execute") return { outputs: execute(params?.action, params?.attrs ?? {}) };
  if (method === "configure") config = params?.config ?? {};
  else if (method !== "shutdown") throw new Refused("unknown_method", `unknown method: ${method}`);
  return {};
}

if (process.argv[2] === "schema") {
  console.log(JSON.stringify(schema));
} else {
  for await (const line of createInterface({ input: process.stdin })) {
    if (!line.trim()) continue;
    const request = JSON.parse(line);
    const outcome = {};
    try {
      outcome.result = answer(request);
    } catch (error) {
      outcome.error = { code: error.code ?? "internal_error", message: error.message };
    }
    process.stdout.write(JSON.stringify({ id: request.id, ...outcome }) + "\n");
    if (request.method === "shutdown") break;
  }
  process.stdin.destroy();
}
