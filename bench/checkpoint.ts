// checkpoint — how long pushes take while a server saves 2 GB, and without. A worker's script; the server is a process
// of its own:
//
//   weighbridge launch -s 1 -w 1 --checkpoint-dir DIR -- bench/checkpoint.ts [--megabytes 2048]
//       [--seconds 5]
//
// The model: two thirds are an embedding (32 wide, AdaGrad), one third a dense tensor (Adam). One push at a time, each
// awaited: 1,000 random rows, and in every tenth round one block of the tensor. What is reported is the time of a push
// from call to answer; how much longer the slowest take during the save is how long the server was busy with it.

import { parseArgs } from "node:util";
import { connect } from "../src/node/weighbridge.ts";
import { reportPushes } from "./pushes-during-save.ts";

const { values } = parseArgs({ options: { megabytes: { type: "string", default: "2048" }, seconds: { type: "string", default: "5" } } });
const megabytes = Number(values.megabytes);
const seconds = Number(values.seconds);
const DIM = 32;
const ROW_BYTES = 8 + 2 * DIM * 4;
const BATCH = 1000;
const rowCount = Math.floor((megabytes * 2 ** 20 * 2) / 3 / ROW_BYTES);
const WIDTH = 1024;
const tensorRows = Math.floor((megabytes * 2 ** 20) / 3 / (3 * 4 * WIDTH));

const session = await connect();
const users = await session.embedding("users", { dim: DIM, optimizer: { type: "adagrad" } });
const dense = await session.tensor("dense", { shape: [tensorRows, WIDTH], optimizer: { type: "adam" } });
const gradient = new Float32Array(BATCH * DIM).fill(0.01);
const blockRows = Uint32Array.from({ length: 128 }, (_, i) => i);
const blockGradient = new Float32Array(blockRows.length * WIDTH).fill(0.01);

const FILL = 20_000;
const fillGradient = new Float32Array(FILL * DIM).fill(0.01);
for (let from = 0; from < rowCount; from += FILL) {
  const count = Math.min(FILL, rowCount - from);
  await users.push(
    Array.from({ length: count }, (_, i) => from + i),
    fillGradient.subarray(0, count * DIM),
  );
}
for (let from = 0; from < tensorRows; from += 128) {
  await dense.pushRows(
    blockRows.map((row) => Math.min(from + row, tensorRows - 1)),
    blockGradient,
  );
}
session.clock();

/** A thousand rows by chance, and in every tenth round a block of the tensor. */
function draw(round: number): () => Promise<void> {
  const keys = Array.from({ length: BATCH }, () => Math.floor(Math.random() * rowCount));
  const from = Math.floor(Math.random() * (tensorRows - 128));
  const rows = blockRows.map((row) => from + row);
  return async () => {
    await users.push(keys, gradient);
    if (round % 10 === 0) await dense.pushRows(rows, blockGradient);
  };
}

const contents = `${rowCount} rows and ${tensorRows} × ${WIDTH}`;
await reportPushes({ session, seconds, unit: "rows", unitsPerPush: BATCH, draw, contents });
await session.close();
