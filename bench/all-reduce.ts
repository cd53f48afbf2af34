// all-reduce — how fast two workers add arrays among themselves: 16 MB at once, and LeNet's ten gradients in one step.
// A worker's script:
//
//   weighbridge launch -s 1 -w 2 -- bench/all-reduce.ts [--seconds 2]
//
// Reported by worker 0: GB/s of reduced bytes (the array's size over the time of a call), and time per operation. The
// ceiling is a link of the same transport between the same two processes that moves what has to move, all of the
// array's bytes each way at the same time, with no frames and nothing added.

import { parseArgs } from "node:util";
import { SILENT_LOG } from "../src/base/log.ts";
import { realClock } from "../src/node/real-clock.ts";
import { SocketTransport } from "../src/node/transport/socket-transport.ts";
import { connect } from "../src/node/weighbridge.ts";
import type { Link } from "../src/transport/transport.ts";

const { values: flags } = parseArgs({
  options: { seconds: { type: "string", default: "2" }, floats: { type: "string", default: "4194304" } },
});
const seconds = Number(flags.seconds);
const floats = Number(flags.floats);
/** Weights and biases of LeNet-5, the last layer first: the order in which gradients are ready. */
const LENET = [10, 840, 84, 10_080, 120, 48_000, 16, 2400, 6, 150];
const WRITE_BYTES = 512 * 1024;

const session = await connect();
const collective = await session.collective({ timeoutMs: 30_000 });
const { rank } = session;

/** Runs rounds until worker 0 has had enough; the milliseconds of each, in order of size. */
async function timed(round: () => Promise<unknown>): Promise<number[]> {
  const times: number[] = [];
  const isOn = new Float32Array(1);
  for (const end = performance.now() + seconds * 1000; ; ) {
    for (let i = 0; i < 10; i++) {
      const began = performance.now();
      await round();
      times.push(performance.now() - began);
    }
    isOn[0] = rank === 0 && performance.now() < end ? 1 : 0;
    await collective.allReduce(isOn);
    if (isOn[0] === 0) return times.sort((a, b) => a - b);
  }
}

function tell(what: string, times: readonly number[], byteCount: number): void {
  if (rank !== 0) return;
  const at = (share: number): number => times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0;
  const rate = (byteCount / at(0.5) / 1e6).toFixed(2);
  console.log(`${what}: ${rate} GB/s, p50 ${at(0.5).toFixed(3)} ms, p90 ${at(0.9).toFixed(3)} ms, ${times.length} rounds`);
}

/** A link to the other worker, with nothing above it. */
async function plainLink(take: (byteCount: number) => void): Promise<Link> {
  const transport = new SocketTransport({ clock: realClock(), log: SILENT_LOG });
  const view = new Uint8Array(2 * 1024 * 1024);
  const reader = { view: () => view, received: take, closed: () => {} };
  const port = new Float32Array(1);
  if (rank !== 0) {
    await collective.broadcast(port, 0);
    return await transport.connect(`tcp://127.0.0.1:${port[0]}`, () => reader, { timeoutMs: 5000 });
  }
  const accepted = Promise.withResolvers<Link>();
  const listener = await transport.listen("tcp://127.0.0.1:0", (link) => {
    accepted.resolve(link);
    return reader;
  });
  port[0] = Number(listener.address.slice(listener.address.lastIndexOf(":") + 1));
  await collective.broadcast(port, 0);
  const link = await accepted.promise;
  await listener.close();
  return link;
}

const large = new Float32Array(floats).fill(1e-3);
const gradients = LENET.map((length) => new Float32Array(length).fill(1e-3));
const lenetBytes = LENET.reduce((sum, length) => sum + 4 * length, 0);
await timed(() => collective.allReduce(large)); // warm
const lenet = (): Promise<unknown> => Promise.all(gradients.map((gradient) => collective.allReduce(gradient)));
tell(`all-reduce of ${((4 * floats) / 1e6).toFixed(1)} MB`, await timed(() => collective.allReduce(large)), large.byteLength);
tell("LeNet's ten gradients, one step", await timed(lenet), lenetBytes);
tell(
  "one of them after the other",
  await timed(async () => {
    for (const gradient of gradients) await collective.allReduce(gradient);
  }),
  lenetBytes,
);
for (const length of [1000, 4000, 8000, 16_000, 32_000, 64_000]) {
  const values = new Float32Array(length).fill(1e-3);
  tell(`all-reduce of ${length} floats`, await timed(() => collective.allReduce(values)), 4 * length);
}

let awaitedBytes = 0;
let arrived = (): void => {};
const link = await plainLink((byteCount) => {
  awaitedBytes -= byteCount;
  if (awaitedBytes <= 0) arrived();
});
const move = async (byteCount: number): Promise<void> => {
  awaitedBytes += byteCount;
  const all = new Promise<void>((resolve) => {
    arrived = resolve;
  });
  const bytes = new Uint8Array(large.buffer, 0, byteCount);
  let written: Promise<void> = Promise.resolve();
  for (let at = 0; at < byteCount; at += WRITE_BYTES) {
    const part = bytes.subarray(at, Math.min(byteCount, at + WRITE_BYTES));
    written = new Promise<void>((flushed) => link.write([part], flushed));
  }
  if (awaitedBytes > 0) await all;
  await written;
};
tell("ceiling: a link alone, the same bytes each way", await timed(() => move(large.byteLength)), large.byteLength);
tell("ceiling: LeNet's bytes each way, in one write", await timed(() => move(lenetBytes)), lenetBytes);
link.destroy();
await session.close();
