// 06-resume — fits a line and some rows of an embedding, and can be stopped: what it comes to does not depend on that.

import { connect } from "weighbridge";

const STEPS = 60;
const SAVE_AT = 25;

const session = await connect();
const schedule = { type: "cosine", steps: STEPS } as const;
const line = await session.tensor("line", { shape: [2], optimizer: { type: "adam", learningRate: 0.2, schedule } });
const rows = await session.embedding("rows", {
  dim: 4,
  optimizer: { type: "adagrad", learningRate: 0.5 },
  init: { type: "normal", std: 0.1 },
});

if (session.clocks > 0) console.log(`going on at step ${session.clocks}, on ${session.serverCount} servers`);
let saving: Promise<void> | undefined;
for (let step = session.clocks; step < STEPS; step++) {
  // y = 3 x - 1, seen through one point at a time.
  const [slope = 0, offset = 0] = await line.pull();
  const x = Math.sin(step);
  const error = slope * x + offset - (3 * x - 1);
  await line.push(Float32Array.of(error * x, error));

  // Rows are drawn towards their own number.
  const keys = [step % 7, 100 + (step % 5)];
  const values = await rows.pull(keys);
  await rows.push(
    keys,
    values.map((value, i) => value - (keys[Math.floor(i / 4)] as number)),
  );
  session.clock();

  if (session.clocks !== SAVE_AT) continue;
  saving = session.checkpoint().saved.then(
    ({ path }) => console.log(`saved ${path}`),
    (thrown: Error) => console.log(`not saved: ${thrown.message}`),
  );
}
await saving;
console.log(`line ${(await line.pull()).join(" ")}, rows ${(await rows.pull([3, 104])).join(" ")}`);
await session.close();
