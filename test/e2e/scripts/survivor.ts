// survivor — a worker of replicated servers: no call of it may fail, whichever process is killed. It trains two
// parameters in step with the others, for which it prints the bits of step STEPS, and pushes to two asynchronous ones
// until its standard input ends, or --pushes times, as fast as they are acknowledged, or at leisure until the file
// --until is there. Then it checks that each of its pushes counted once. It prints the longest time that it waited for
// one, and each that was long.

import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { parseArgs } from "node:util";
import { connect } from "weighbridge";

/** Of the synchronous parameters: however long the worker lives, they make as many. */
const STEPS = 60;
const REPORT_MS = 200;
/** Waits from here on are told one by one. */
const LONG_MS = 10;
/** Between two pushes, with --until. */
const LEISURE_MS = 5;
const SIZE = 5000;
const KEYS = Array.from({ length: 64 }, (_, key) => key * 97);
const WAIT = { timeoutMs: 60_000 };

const session = await connect();
const { rank } = session;
const tensor = await session.tensor("tensor", { shape: [SIZE], consistency: "bsp", optimizer: { type: "momentum", learningRate: 0.1 } });
const rows = await session.embedding("rows", { dim: 4, consistency: "bsp", optimizer: { type: "adam" } });
const shared = await session.tensor("shared", { shape: [SIZE], optimizer: "sum", consistency: "asp" });
const own = await session.embedding(`own ${rank}`, { dim: 2, optimizer: "sum" });

const { values: options } = parseArgs({ options: { pushes: { type: "string" }, until: { type: "string" } } });
const pushesMax = Number(options.pushes ?? Infinity);
let isDone = false;
if (options.pushes === undefined && options.until === undefined) {
  process.stdin.on("end", () => {
    isDone = true;
  });
  process.stdin.resume();
}

let [longestMs, pushCount, reportAt] = [0, 0, 0];
/** Waits for an answer, and notes how long that took. */
async function timed<T>(answer: Promise<T>): Promise<T> {
  const startedAt = performance.now();
  const value = await answer;
  const waitedMs = performance.now() - startedAt;
  longestMs = Math.max(longestMs, waitedMs);
  if (waitedMs >= LONG_MS) console.log(`waited ${Math.round(waitedMs)} ms`);
  return value;
}

function gradient(length: number, step: number): Float32Array {
  return Float32Array.from({ length }, (_, i) => Math.sin((step + 1) * (rank + 1) + i));
}

async function trainInStep(): Promise<void> {
  for (let step = 0; step < STEPS; step++) {
    await Promise.all([tensor.push(gradient(SIZE, step), WAIT), rows.push(KEYS, gradient(KEYS.length * 4, step), WAIT)]);
    session.clock();
    await tensor.pull(WAIT);
    await setTimeout(20);
  }
  const [values, table] = [await tensor.pull(WAIT), await rows.pull(KEYS, WAIT)];
  console.log(`bits ${createHash("sha256").update(values).update(table).digest("hex").slice(0, 16)}`);
}

async function pushAsync(): Promise<void> {
  const [ones, two] = [new Float32Array(SIZE).fill(1), new Float32Array(4).fill(1)];
  while (!isDone && pushCount < pushesMax) {
    await Promise.all([timed(shared.push(ones, WAIT)), timed(own.push([1, 2 ** 40], two, WAIT))]);
    pushCount++;
    if (options.until !== undefined) await setTimeout(LEISURE_MS);
    if (performance.now() < reportAt) continue;
    reportAt = performance.now() + REPORT_MS;
    isDone ||= options.until !== undefined && existsSync(options.until);
    console.log(`pushed ${pushCount}`);
  }
}

await Promise.all([trainInStep(), pushAsync()]);
const counted = await own.pull([1, 2 ** 40], WAIT);
if (!counted.every((value) => value === pushCount)) throw new Error(`after ${pushCount} pushes the rows are ${counted.join()}`);
const all = await session.rendezvous.meet("pushed", { generation: 0, value: String(pushCount), ...WAIT });
const total = all.reduce((sum, { value }) => sum + Number(value), 0);
const sums = await shared.pull(WAIT);
const wrong = sums.findIndex((sum) => sum !== total);
if (wrong >= 0) throw new Error(`after ${total} pushes of all workers element ${wrong} is ${sums[wrong]}`);
console.log(`verified ${pushCount} pushes, longest wait ${Math.round(longestMs)} ms`);
await session.close();
