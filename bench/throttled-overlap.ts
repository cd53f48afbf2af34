// throttled-overlap — as shared-model-overlap, with real processes and in real time: a scheduler, a server, and this
// process as the worker, whose way to the server is a link of a given speed and latency on this machine
// (throttled-link.ts). Computing is a wait: it takes the time it should, and no core.
//
//   node bench/throttled-overlap.ts [--steps 5]

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { connect } from "../src/node/connect.ts";
import { createSharedModel } from "../src/node/create-shared-model.ts";
import { freePort } from "../src/node/launcher/free-port.ts";
import { type LayeredTraining, trainLayers } from "./layered-training.ts";
import { ThrottledLink } from "./throttled-link.ts";

const { values } = parseArgs({ options: { steps: { type: "string", default: "5" } } });
const steps = Number(values.steps);
const COMMAND = fileURLToPath(new URL("../bin/weighbridge.mjs", import.meta.url));
const [HERE, FAR] = ["127.0.0.1", "127.0.0.2"];
const NETS: Readonly<Record<string, Omit<LayeredTraining, "overlaps" | "steps">>> = {
  "6 layers of 100 ms each, 40 ms each way": { lengths: Array<number>(6).fill(250_000), layerMs: 100, latencyMs: 0, bytesPerMs: 25_000 },
  "784-100-10, 20 ms of latency": { lengths: [78_400, 100, 1000, 10], layerMs: 2, latencyMs: 20, bytesPerMs: 100_000 },
};

async function run({ latencyMs, bytesPerMs, ...net }: LayeredTraining): Promise<{ readonly waitedMs: number; readonly allMs: number }> {
  const [schedulerPort, port] = [await freePort(HERE), await freePort(HERE)];
  const env = { ...process.env, DMLC_PS_ROOT_PORT: String(schedulerPort), DMLC_NUM_SERVER: "1", DMLC_NUM_WORKER: "1" };
  const node = (...args: string[]): ChildProcess =>
    spawn(process.execPath, [COMMAND, ...args, "--log-level", "error"], { env, stdio: ["ignore", "ignore", "inherit"] });
  await using _ = await ThrottledLink.open({ from: { host: FAR, port }, to: { host: HERE, port }, latencyMs, bytesPerMs });
  const nodes = [node("scheduler"), node("server", "--listen-port", String(port), "--advertise-host", FAR)];
  try {
    const options = { schedulerHost: HERE, schedulerPort, serverCount: 1, workerCount: 1, logLevel: "error" } as const;
    const session = await connect({ ...options, role: "worker", timeoutMs: 30_000 });
    const model = createSharedModel("dist", { session, updater: { type: "sum" }, consistency: "bsp" });
    await model.init([0]);
    const compute = async (ms: number): Promise<void> => await sleep(ms);
    const times = await trainLayers(model, net, { compute, nowMs: () => performance.now() });
    await model.close();
    const exits = Promise.all(nodes.map((child) => once(child, "exit")));
    await session.close({ timeoutMs: 10_000 });
    await exits;
    return times;
  } finally {
    for (const child of nodes) child.kill("SIGKILL");
  }
}

for (const [name, net] of Object.entries(NETS)) {
  const [on, off] = [await run({ ...net, steps, overlaps: true }), await run({ ...net, steps, overlaps: false })];
  const perStep = (ms: number): string => (ms / steps).toFixed(1);
  const times = `waited ${perStep(on.waitedMs)} ms a step with overlap, ${perStep(off.waitedMs)} without`;
  console.log(`${name}: ${times}: ${(on.waitedMs / off.waitedMs).toFixed(2)}; a step ${perStep(on.allMs)} and ${perStep(off.allMs)} ms`);
}
