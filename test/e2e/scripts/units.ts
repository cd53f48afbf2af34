// units — a worker that does the units of an epoch: each adds one to the unit's own element of a tensor. It prints each
// unit that it begins. With --stall it stops for good in the middle of its third.

import { setTimeout } from "node:timers/promises";
import { parseArgs } from "node:util";
import { connect } from "weighbridge";

const BATCHES = 60;
const PARTS = 2;

const { values: options } = parseArgs({ options: { stall: { type: "boolean" }, assignment: { type: "string" } } });
const session = await connect();
const visits = await session.tensor("visits", { shape: [BATCHES * PARTS], optimizer: "sum" });
const assignment = options.assignment === "even" ? "even" : "free";
const units = session.units("train", { epoch: 0, batchCount: BATCHES, partCount: PARTS, assignment });
let unitCount = 0;
for await (const unit of units) {
  console.log(`begins ${unit.index}`);
  if (options.stall === true && ++unitCount === 3) await new Promise(() => setInterval(() => {}, 1000));
  const gradient = new Float32Array(BATCHES * PARTS);
  gradient[unit.index] = 1;
  await visits.push(gradient);
  unit.done();
  await setTimeout(5);
}
const counts = await visits.pull();
const [least, most] = [Math.min(...counts), Math.max(...counts)];
console.log(`over: each ${least} to ${most} times, ${units.repeatedCount} repeated`);
await session.close();
