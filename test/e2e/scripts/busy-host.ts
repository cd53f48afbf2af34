// busy-host — the scheduler and a worker in one process, as the first process of a host map: its loop computes for
// longer than the heartbeat timeout, and longer than a server may. Then the worker pushes and pulls.

import { connect } from "weighbridge";
import { start } from "weighbridge/node";

const [port, busyMs] = process.argv.slice(2).map(Number) as [number, number];
const common = { serverCount: 1, workerCount: 1, schedulerPort: port };
const starting = start({ role: "scheduler", ...common, heartbeatIntervalMs: 200, heartbeatTimeoutMs: 1200, loopTimeoutMs: 1500 });
const session = await connect({ role: "worker", ...common, rank: 0 });
const scheduler = await starting;
const ended = scheduler.finalize();
const tensor = await session.tensor("w", { shape: [1], optimizer: "sum" });
const endMs = performance.now() + busyMs;
while (performance.now() < endMs);
await tensor.push(Float32Array.of(3));
console.log(`pulled ${(await tensor.pull())[0]}`);
await session.close();
await ended;
