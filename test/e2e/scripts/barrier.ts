// barrier — a worker that enters a barrier of all workers, again whenever it fails because another one died. With
// --wait it enters only after its standard input has ended.

import { once } from "node:events";
import { parseArgs } from "node:util";
import { Group, isWeighbridgeError } from "weighbridge/kv";
import { start } from "weighbridge/node";

const { values: options } = parseArgs({ options: { wait: { type: "boolean" } } });
const office = await start();
console.log(`started, recovery ${office.isRecovery}`);
if (options.wait === true) {
  process.stdin.resume();
  await once(process.stdin, "end");
}
for (let isPassed = false; !isPassed; ) {
  try {
    console.log("entering");
    await office.barrier(0, Group.WORKERS);
    isPassed = true;
  } catch (error) {
    if (!isWeighbridgeError(error, "NODE_DEAD")) throw error;
    console.log(`barrier failed: ${error.message}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
console.log("passed");
await office.finalize();
