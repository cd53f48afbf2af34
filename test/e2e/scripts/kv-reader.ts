// kv-reader — a worker that tells what the sums of pusher.ts, of the worker of rank 0, come to: the least and the
// greatest of its keys.

import { KVWorker } from "weighbridge/kv";
import { start } from "weighbridge/node";

const KEY_COUNT = 64;

const office = await start();
const kv = new KVWorker(office, 0);
const keys = BigUint64Array.from({ length: KEY_COUNT }, (_, i) => BigInt(i) * (2n ** 64n / BigInt(KEY_COUNT)));
const sums = new Float32Array(KEY_COUNT);
await kv.wait(kv.pull(keys, sums));
console.log(`holds ${Math.min(...sums)} to ${Math.max(...sums)}`);
await office.finalize();
