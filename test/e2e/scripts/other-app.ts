// other-app — a worker that pushes to an application that the built-in servers do not have.

import { KVWorker } from "weighbridge/kv";
import { start } from "weighbridge/node";

const office = await start();
const kv = new KVWorker(office, 1);
await kv.wait(kv.push(BigUint64Array.of(1n), Float32Array.of(1)));
