// some-parameters — a worker that makes parameters of several kinds, and then does nothing until it is ended.

import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "weighbridge";

const session = await connect();
const optimizer = { type: "adagrad", learningRate: 0.1 } as const;
const users = await session.embedding("users", { dim: 4, init: { type: "constant", value: 0.5 }, optimizer });
const keys = Array.from({ length: 1000 }, (_, i) => i);
await users.push(keys, new Float32Array(4 * keys.length).fill(1));
await users.push(["user:5"], new Float32Array(4).fill(-1));
const counts = await session.embedding("点击次数", { dim: 1, dtype: "i64", optimizer: { type: "sum" } });
await counts.push([1], BigInt64Array.of(2n ** 60n));
await session.tensor("w", { shape: [30, 2], init: { type: "constant", value: 0.25 }, optimizer: { type: "sgd" }, consistency: "bsp" });
console.log("made");
await sleep(2 ** 31 - 1);
