// unclosed — three workers of a job: worker 0 ends its process, worker 1 ends its script behind a push that it does not
// await, and worker 2 waits for both of them at a barrier, reads what they have pushed, and closes its session.

import { connect } from "weighbridge";

const session = await connect();
const table = await session.embedding("sums", { dim: 1, optimizer: "sum" });
const one = new Float32Array([1]);
await session.barrier();
if (session.rank === 0) {
  await table.push([7n], one);
  process.exit(0);
}
if (session.rank === 1) {
  void table.push([7n], one);
} else {
  await session.barrier();
  console.log(`${(await table.pull([7n]))[0]} of 2`);
  await session.close();
}
