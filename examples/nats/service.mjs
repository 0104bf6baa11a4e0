// A micro service with one endpoint that says what it takes: node service.mjs URL
import { Svcm } from "@nats-io/services";
import { connect } from "@nats-io/transport-node";

const nc = await connect({ servers: process.argv[2] });
const service = await new Svcm(nc).add({ name: "words", version: "1.0.0" });
const schema = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };
service.addEndpoint("count", {
  metadata: { description: "Count words", schema: JSON.stringify(schema) },
  handler: (error, message) => {
    const { text } = message.json();
    if (text === undefined) message.respondError(422, "there is no text");
    else message.respond(JSON.stringify({ words: text.split(" ").length }));
  },
});
await nc.flush();
console.log("ready");
