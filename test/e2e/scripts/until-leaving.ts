// until-leaving — a worker that waits until it, or another one, was asked to leave.

import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "weighbridge";

const session = await connect();
const left = await session.tensor("left", { shape: [1], optimizer: { type: "sum" }, consistency: "asp" });
console.log(`worker ${session.rank} is here`);
while (!session.isLeaving && (await left.pull())[0] === 0) await sleep(20);
if (session.isLeaving) {
  console.log("asked to leave");
  await left.push(Float32Array.of(1));
}
await session.close({ barrier: false });
