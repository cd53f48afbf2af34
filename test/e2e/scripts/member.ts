// member — a node of any role that prints its process id and waits. --fail: worker 1 throws. --stubborn: it ignores
// being asked to end. --leave-on-death: it leaves when a node is dead.

import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { start } from "weighbridge/node";

const { values: options } = parseArgs({
  options: { fail: { type: "boolean" }, stubborn: { type: "boolean" }, "leave-on-death": { type: "boolean" } },
});
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.on(signal, () => {
    console.log(`got ${signal}`);
    if (options.stubborn !== true) process.exit(0);
  });
}
const office = await start();
console.log(`pid ${process.pid}`);
if (options.fail === true && office.isWorker && office.myRank === 1) {
  process.exitCode = 3;
  console.error(new Error("out of data"));
  setTimeout(() => process.exit(), 300); // The others are to print their process ids first.
} else if (options["leave-on-death"] === true) {
  const deadOne = () => office.roster.nodes.find(({ state }) => state === "dead");
  while (deadOne() === undefined) await sleep(20);
  console.log(`${deadOne()?.role} ${deadOne()?.rank} is dead`);
  await office.finalize();
} else setInterval(() => {}, 1000);
