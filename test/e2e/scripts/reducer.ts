// reducer — a worker that reduces with the others, sum after sum, until its standard input ends; after a death with
// those who are left. For e2e tests.

import { connect, isWeighbridgeError } from "weighbridge";

const FLOATS = 100_000;
let isOver = false;
process.stdin.on("end", () => {
  isOver = true;
});
process.stdin.resume();

const session = await connect();
const collective = await session.collective({ timeoutMs: 30_000 });
console.log(`members ${collective.members.join(" ")}, generation ${collective.generation}`);

/** One sum of everybody's ranks, and how many want to end. */
async function round(): Promise<boolean> {
  const values = new Float32Array(FLOATS).fill(session.rank + 1);
  const ending = Float32Array.of(isOver ? 1 : 0);
  await Promise.all([collective.allReduce(values), collective.allReduce(ending)]);
  const expected = collective.members.reduce((sum, rank) => sum + rank + 1, 0);
  if (!values.every((value) => value === expected)) throw new Error(`a sum of ${values[0]}, not ${expected}`);
  return ending[0] === collective.members.length;
}

for (let count = 1; ; count++) {
  try {
    const isLast = await round();
    if (isLast || count % 20 === 1) console.log(`reduced ${count}`);
    if (isLast) break;
  } catch (thrown) {
    if (!isWeighbridgeError(thrown, "NODE_DEAD")) throw thrown;
    console.log(`failed: ${thrown.code} ${thrown.message}`);
    await collective.reform({ timeoutMs: 30_000 });
    console.log(`members ${collective.members.join(" ")}, generation ${collective.generation}`);
  }
}
await session.close({ barrier: false });
console.log("done");
