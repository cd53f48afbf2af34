// beside-python — a worker of ours in a job with one in Python (test/conformance/python/walk.py): the same parameters,
// described in our words.

import { connect } from "weighbridge";

const session = await connect();
const w = await session.tensor("w", { shape: [300, 1000], consistency: "bsp", optimizer: { type: "sgd", learningRate: 0.5 } });
const e = await session.embedding("e", { dim: 4, optimizer: "sum" });
await w.push(Float32Array.from({ length: 300_000 }, (_, i) => i / 8));
session.clock();
const values = await w.pull(); // waits until the other has ended its clock: then its rows are there, too
const rows = await e.pull([2n ** 64n - 1n, 7n, 0n]);
console.log(JSON.stringify({ last: values.at(-1), rows: [...rows] }));
await session.close();
