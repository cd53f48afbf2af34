// crowd — many workers and one server on few cores: what all of them push in a second, and how long one push takes. A
// worker's script:
//
//   weighbridge launch -s 1 -w 16 --no-shared-memory -- bench/crowd.ts [--window 4] [--after 1.5] [--seconds 2]
//
// Each worker pushes one float, `--window` pushes at a time, and counts those of `--seconds` that begin `--after`
// seconds after all workers have met. Worker 0 adds the others' counts up: the servers hold them. Its own times give
// the percentiles, which differ little between workers.

import { parseArgs } from "node:util";
import { KVWorker } from "../src/faces/kv/index.ts";
import { start } from "../src/node/index.ts";
import { Group } from "../src/wire/node-id.ts";

const { values: flags } = parseArgs({
  options: {
    window: { type: "string", default: "4" },
    after: { type: "string", default: "1.5" },
    seconds: { type: "string", default: "2" },
  },
});
const [window, afterMs, spanMs] = [Number(flags.window), 1000 * Number(flags.after), 1000 * Number(flags.seconds)];
/** Where counts are added up: no worker pushes its floats there. */
const COUNT_KEY = 1_000_000n;

const office = await start();
const kv = new KVWorker(office, 0);
await office.barrier(0, Group.WORKERS);

const times: number[] = [];
const fromMs = performance.now() + afterMs;
const untilMs = fromMs + spanMs;

async function pushOver(key: bigint): Promise<void> {
  const keys = BigUint64Array.of(key);
  const values = Float32Array.of(1);
  for (let beganMs = performance.now(); beganMs < untilMs; ) {
    await kv.wait(kv.push(keys, values));
    const endedMs = performance.now();
    if (beganMs >= fromMs && endedMs <= untilMs) times.push(endedMs - beganMs);
    beganMs = endedMs;
  }
}

await Promise.all(Array.from({ length: window }, (_, i) => pushOver(BigInt(office.myRank * window + i))));
await kv.wait(kv.push(BigUint64Array.of(COUNT_KEY), Float32Array.of(times.length)));
await office.barrier(0, Group.WORKERS);
if (office.myRank === 0) {
  const counted = new Float32Array(1);
  await kv.wait(kv.pull(BigUint64Array.of(COUNT_KEY), counted));
  times.sort((a, b) => a - b);
  const at = (share: number): string => (times[Math.floor((times.length - 1) * share)] ?? 0).toFixed(2);
  const rate = Math.round((counted[0] ?? 0) / Number(flags.seconds)).toLocaleString("en-US");
  console.log(`${office.numWorkers} workers, ${window} pushes at a time: ${rate} requests/s, p50 ${at(0.5)} ms, p99 ${at(0.99)} ms`);
}
await office.finalize();
