// Calls functions that treat their server badly, and then uses the server. With "fatal" the one that makes it fail.

import { setTimeout } from "node:timers/promises";
import { connect, isWeighbridgeError } from "weighbridge";
import { fatal, leaky, textless } from "./leaky-functions.ts";

const session = await connect();
if (process.argv[2] === "fatal") await session.call(fatal, { server: 0 }, { word: "x" });
await session.call(textless, { server: 0 }, { word: "x" }).catch((thrown: unknown) => {
  if (isWeighbridgeError(thrown)) console.log(`textless: ${thrown.code} ${thrown.message}`);
});
for (const word of ["one", "two"]) await session.call(leaky, { server: 0 }, { word });
await setTimeout(100);
const w = await session.tensor("w", { shape: [2], optimizer: "sum" });
await w.push(Float32Array.of(1, 2));
console.log(`the server lives: ${(await w.pull()).join()}`);
await session.close();
