// The smallest producer: self-describing events, no hello of its own (PROTOCOL.md, section 1).
import { decode, encode } from "@msgpack/msgpack";
import { Dealer, XPublisher } from "zeromq";

const control = new Dealer({ linger: 0 });
control.connect(process.env.TELEMETRY_ENDPOINT);
await control.send(encode({ type: "hello" }));
const [answer] = await control.receive();
const events = new XPublisher({ noDrop: true, linger: 5000 });
events.connect(decode(answer).events);
await events.receive(); // the subscription: from now on somebody listens
const records = [["sample", "latency", 1.5, 0, "ms"], ["count", "requests"]];
for (let seq = 0; seq < 3; seq++) {
  const batch = [[1, 0], `minimal-${process.pid}`, seq, seq * records.length, [0, 0], {}, records, []];
  await events.send(Buffer.concat([Buffer.from("ev/1\0\0\0\0"), encode(batch)]));
}
control.close();
events.close(); // linger: what is queued still leaves
