// 01-push-pull — workers push values to keys, servers sum them, workers pull the sums. One script for every role.

import { Group, KVServer, KVWorker } from "weighbridge/kv";
import { start } from "weighbridge/node";

const APP = 0;
const KEY_COUNT = 1000;
const ROUND_COUNT = 10;

// Who am I? `weighbridge launch` says it in the environment. `start` returns once the whole cluster is there.
const office = await start();

// A server without a handle of its own adds up what is pushed to each key.
if (office.isServer) new KVServer(office, APP);

if (office.isWorker) {
  const kv = new KVWorker(office, APP);

  // Keys are 64-bit numbers in ascending order. Each server owns an equal range of them, so keys all over the range
  // keep all servers busy.
  const step = 2n ** 64n / BigInt(KEY_COUNT);
  const keys = BigUint64Array.from({ length: KEY_COUNT }, (_, i) => BigInt(i) * step);
  const vals = Float32Array.from(keys, (_, i) => i);

  // Calls return at once with a timestamp to wait for; the arrays are sent without a copy, so they must not change
  // until then.
  for (let round = 0; round < ROUND_COUNT; round++) await kv.wait(kv.push(keys, vals));

  // Every worker has pushed once all of them stand here.
  await office.barrier(0, Group.WORKERS);

  const sums = new Float32Array(KEY_COUNT);
  await kv.wait(kv.pull(keys, sums));

  const expected = (i: number): number => i * ROUND_COUNT * office.numWorkers;
  const wrong = sums.findIndex((sum, i) => sum !== expected(i));
  if (wrong >= 0) throw new Error(`key ${wrong} holds ${sums[wrong]} instead of ${expected(wrong)}`);
  console.log(`pushed ${KEY_COUNT} keys ${ROUND_COUNT} times; the sums over ${office.numWorkers} workers are right`);
}

// All nodes leave together: servers stay until the last worker is done.
await office.finalize();
