// embedded-ends — a program that closes neither the cluster inside its process nor the sessions. It ends behind a push
// that it does not await; with "serve" behind a function that a session serves.

import { workerFunction } from "weighbridge";
import { EmbeddedCluster } from "weighbridge/embedded";

const cluster = await EmbeddedCluster.start({ servers: 2, workers: 2, workersMax: 3 });
await cluster.scale(1);
await cluster.scaleWorkers(3);
const [first, second] = cluster.sessions;
const table = await first!.embedding("sums", { dim: 1, optimizer: "sum" });
await table.push([7n], new Float32Array([1]));
const bsp = await second!.tensor("rounds", { shape: [1], optimizer: "sum", consistency: "bsp" });
await bsp.push(new Float32Array([2]));
if (process.argv[2] === "serve") second!.serve(workerFunction({ name: "echo", request: {}, response: {}, handler: () => ({}) }));
for (const session of cluster.sessions) session.clock();
void bsp.pull().then(([sum]) => console.log(`${sum} of 2`));
