// A worker that trains until its guests have pushed as many ones as it was told.

import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "weighbridge";

const wanted = Number(process.argv[2]);
const session = await connect();
const rounds = await session.tensor("rounds", { shape: [4], consistency: "bsp", optimizer: { type: "sum" } });
const visits = await session.embedding("visits", { dim: 1, consistency: "asp", optimizer: { type: "sum" } });
console.log("ready");
for (;;) {
  await rounds.push(new Float32Array(4).fill(1));
  session.clock();
  await rounds.pull();
  const [count = 0] = await visits.pull([1]);
  if (count >= wanted) {
    console.log(`${count} visits`);
    break;
  }
  await sleep(10);
}
await session.close();
