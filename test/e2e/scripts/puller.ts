// Pulls a tensor again and again, and catches nothing.

import { connect } from "weighbridge";

const session = await connect();
const w = await session.tensor("w", { shape: [1], optimizer: "sum" });
console.log("pulling");
for (;;) await w.pull();
