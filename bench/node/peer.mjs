// A contender that runs in Node.js: node peer.mjs graphile-worker|pg-boss. It reads the requests of ../remote.go, lines
// of JSON, from its standard input, and writes the replies to its standard output.
import { createInterface } from "node:readline";
import * as graphile from "./graphile-worker.mjs";
import * as boss from "./pg-boss.mjs";

const filler = "The quick brown fox jumps over the lazy dog. ".repeat(5);
const payloadSize = 200;
const tellEvery = 2; // milliseconds

// payload is the same as every other contender's.
export function payload(number) {
  const frame = JSON.stringify({ number, text: "" }).length;
  return { number, text: filler.slice(0, payloadSize - frame) };
}

const peer = { "graphile-worker": graphile, "pg-boss": boss }[process.argv[2]];
const say = (answer) => process.stdout.write(JSON.stringify(answer) + "\n");
const now = () => performance.timeOrigin + performance.now();

let numbers, told, ticking, cpu, trace;

const operations = {
  attach: (q) => peer.attach(q.dsn, q.schema),
  prepare: (q) => peer.prepare(q.dsn, q.schema),
  async enqueue({ from, to, batch }) {
    for (; from < to; from += batch) {
      const end = Math.min(from + batch, to);
      if (end - from === 1) await peer.enqueueOne(payload(from));
      else await peer.enqueueMany(Array.from({ length: end - from }, (_, i) => payload(from + i)));
    }
  },
  async work(q) {
    [numbers, told, trace, cpu] = [[], 0, q.trace, process.cpuUsage()];
    ticking = setInterval(() => {
      if (numbers.length !== told) say({ id: 0, handled: (told = numbers.length) });
    }, tellEvery);
    await peer.start((task) => {
      numbers.push(task.number);
      if (trace) say({ id: 0, handled: (told = numbers.length), number: task.number, at: Math.round(now() * 1000) });
    });
  },
  async stop() {
    const end = await peer.stop(now);
    clearInterval(ticking);
    const used = process.cpuUsage(cpu);
    return { end: Math.round(end), cpu: used.user + used.system, numbers };
  },
};

const lines = createInterface({ input: process.stdin });
lines.on("line", async (line) => {
  const q = JSON.parse(line);
  try {
    say({ id: q.id, ...(await operations[q.op](q)) });
  } catch (err) {
    say({ id: q.id, error: String(err?.stack ?? err) });
  }
});
lines.on("close", async () => {
  await peer.close().catch(() => {});
  process.exit(0);
});
