// arguments — a script that is a worker only: prints its arguments, and pushes a one that the servers built in add up.

import { KVWorker } from "weighbridge/kv";
import { start } from "weighbridge/node";

const office = await start();
const kv = new KVWorker(office, 0);
const keys = BigUint64Array.of(1n, 2n ** 64n - 1n);
const sums = new Float32Array(2);
await kv.wait(kv.pushPull(keys, Float32Array.of(1, 1), sums));
console.log(`arguments ${process.argv.slice(2).join(" ")}, sum ${sums[1]}`);
await office.finalize();
