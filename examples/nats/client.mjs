// Calls tools of a bus as any NATS client does: node client.mjs URL NAME
import { connect } from "@nats-io/transport-node";

const [url, name] = process.argv.slice(2);
const nc = await connect({ servers: url });
const answer = await nc.request(`${name}.add`, JSON.stringify({ a: 19, b: 23 }));
console.log(answer.string());
const failed = await nc.request(`${name}.fail`, JSON.stringify({ message: "out of luck" }));
console.log(failed.headers.get("Nats-Service-Error-Code"), failed.headers.get("Nats-Service-Error"));
await nc.close();
