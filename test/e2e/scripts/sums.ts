// sums — a worker that pushes, pulls and pushPulls keys of its own over all servers, and checks every sum. Does what
// ps-lite's test_kv_app does, with which it shares a cluster in some tests.

import { KVWorker } from "weighbridge/kv";
import { start } from "weighbridge/node";

const KEY_COUNT = 10_000;
const REPEAT = 50;

const office = await start();
const kv = new KVWorker(office, 0);
const step = (2n ** 64n - 1n) / BigInt(KEY_COUNT);
const keys = BigUint64Array.from({ length: KEY_COUNT }, (_, i) => BigInt(i) * step + BigInt(office.myRank));
const vals = Float32Array.from({ length: KEY_COUNT }, (_, i) => (i * 7 + office.myRank) % 1000);
const sums = new Float32Array(KEY_COUNT);

function check(times: number): void {
  const wrong = sums.findIndex((sum, i) => sum !== (vals[i] as number) * times);
  if (wrong >= 0) throw new Error(`after ${times} pushes key ${wrong} holds ${sums[wrong]}, not ${(vals[wrong] as number) * times}`);
}

const pushes = Array.from({ length: REPEAT }, () => kv.push(keys, vals));
for (const push of pushes) await kv.wait(push);
await kv.wait(kv.pull(keys, sums));
check(REPEAT);
for (let i = 0; i < REPEAT; i++) await kv.wait(kv.pushPull(keys, vals, sums));
check(2 * REPEAT);
await office.finalize();
console.log("sums are right");
