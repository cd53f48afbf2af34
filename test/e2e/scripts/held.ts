// held — two workers. Worker 0 does not close its session, and ends its script behind updates that are kept back: rows
// of a cache, and what top-k leaves of a push. With "exit" it ends its process. Worker 1 says what the servers have
// then.

import { connect } from "weighbridge";

const session = await connect();
const table = await session.embedding("sums", { dim: 1, optimizer: "sum", versions: true });
const tensor = await session.tensor("tensor", { shape: [4], optimizer: "sum", link: { push: { topK: 0.25 } } });
await session.barrier();
if (session.rank === 0) {
  const cache = table.cached({ rows: 4, pushBound: 10 });
  await cache.push([7n], Float32Array.of(1)); // its row is not cached: it leaves
  await cache.pull([7n]);
  await cache.push([7n], Float32Array.of(2));
  await tensor.push(Float32Array.of(1, 2, 3, 4));
  if (process.argv[2] === "exit") process.exit(0);
} else {
  await session.barrier();
  console.log(`cached ${(await table.pull([7n]))[0]}, top-k ${(await tensor.pull()).join()}`);
  await session.close();
}
