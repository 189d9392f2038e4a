// A full producer: definitions, canonical rows, acknowledgements, resending, end (PROTOCOL.md, sections 4 to 8).
//
//   TELEMETRY_ENDPOINT=ipc://... node producer.js [EVENTS]
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { decode, encode } from "@msgpack/msgpack";
import { Dealer, XPublisher } from "zeromq";

const TOPIC = Buffer.from("ev/1\0\0\0\0");
const VERSION = [1, 0], ROW_BYTES = 27, BATCH_EVENTS = 16_384, FLUSH_MS = 50;
const pack = (value) => encode(value, { useBigInt64: true });
const monotonicNs = () => process.hrtime.bigint();

class Producer {
  id = `node-${hostname()}-${process.pid}-${randomBytes(4).toString("hex")}`.slice(-64);
  definitions = [];
  rows = []; // id, time, value of what is not sent yet
  unacknowledged = new Map(); // batch number → frame
  waiting = new Map(); // request id → resolve
  sending = Promise.resolve();
  seq = 0; first = 0; requests = 0;

  constructor(endpoint) {
    this.control = new Dealer({ linger: 0, routingId: this.id });
    this.control.connect(endpoint);
    this.events = new XPublisher({ noDrop: true, sendHighWaterMark: 64, linger: 0 });
    this.listen();
  }

  async start() {
    const who = { producer: this.id, name: "node", host: hostname(), pid: process.pid };
    const welcome = await this.request("hello", { version: VERSION, ...who, mono_ns: monotonicNs() });
    this.events.connect(welcome.events);
    await this.events.receive(); // the subscription: until it came, whatever is sent vanishes
    this.pinging = setInterval(() => this.request("ping", { producer: this.id, mono_ns: monotonicNs() }), 1000);
    this.flushing = setInterval(() => this.flush(), FLUSH_MS);
  }

  define(name, kind, unit, labels = {}) {
    const id = this.definitions.length;
    this.definitions.push(["define", id, name, kind, unit, labels]);
    return (value) => {
      this.rows.push(id, monotonicNs(), value);
      if (this.rows.length >= 3 * BATCH_EVENTS) this.flush();
    };
  }

  flush() {
    if (this.rows.length === 0) return;
    const rows = this.rows.splice(0);
    const anchor = [monotonicNs(), BigInt(Date.now()) * 1_000_000n];
    const head = [VERSION, this.id, this.seq, this.first, anchor, {}, this.definitions];
    const frame = Buffer.concat([TOPIC, Buffer.of(0x98), ...head.map(pack), packRows(rows)]);
    this.unacknowledged.set(this.seq++, frame);
    this.first += rows.length / 3;
    this.send(frame);
  }

  send(frame) { // one send at a time; it waits while the pipe is full
    this.sending = this.sending.then(() => this.events.send(frame));
  }

  async end() {
    clearInterval(this.flushing);
    this.flush();
    await this.sending;
    const ended = await this.request("end", { producer: this.id, batches: this.seq, emitted: this.first });
    clearInterval(this.pinging);
    this.unacknowledged.clear(); // nothing is sent again
    await this.sending;
    this.control.close();
    this.events.close();
    return ended;
  }

  request(type, body) {
    const id = ++this.requests;
    return new Promise((resolve) => {
      this.waiting.set(id, resolve);
      this.control.send(pack({ type, id, ...body }));
    });
  }

  async listen() {
    for await (const [data] of this.control) {
      const message = decode(data);
      if (message.type === "error") throw new Error(`${message.code}: ${message.message}`);
      if (message.type === "ack") for (const seq of this.unacknowledged.keys()) {
        if (seq < message.batches) this.unacknowledged.delete(seq);
      }
      if (message.type === "resend") for (const [seq, frame] of this.unacknowledged) {
        if (message.first <= seq && seq <= message.last) this.send(frame);
      }
      this.waiting.get(message.id)?.(message);
      this.waiting.delete(message.id);
    }
  }
}

function packRows(numbers) { // array header, then float64 id, uint64 time, float64 value: 27 bytes an event
  const out = Buffer.alloc(5 + (numbers.length / 3) * ROW_BYTES);
  let at = out.writeUInt32BE(numbers.length, out.writeUInt8(0xdd, 0));
  for (let i = 0; i < numbers.length; i += 3) {
    at = out.writeDoubleBE(numbers[i], out.writeUInt8(0xcb, at));
    at = out.writeBigUInt64BE(numbers[i + 1], out.writeUInt8(0xcf, at));
    at = out.writeDoubleBE(numbers[i + 2], out.writeUInt8(0xcb, at));
  }
  return out;
}

const total = Number(process.argv[2] ?? 100_000);
const producer = new Producer(process.env.TELEMETRY_ENDPOINT);
await producer.start();
const latency = producer.define("latency", "series", "ms", { route: "/node" });
const requests = producer.define("requests", "counter", "requests");
for (let event = 0; event < total; event += 2) {
  latency(1 + (event % 100) / 10);
  requests(1);
  if (event % 10_000 === 0) await sleep(1); // a real program does something else meanwhile
}
console.log(JSON.stringify(await producer.end()));
