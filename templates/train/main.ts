// Trains a linear model on several workers: each has its own samples, and the servers apply the mean of their
// gradients. `npm start` launches this script in every worker.

import { connect } from "weighbridge";

const FEATURES = 32;
const BATCH = 64;
const STEPS = 200;

await using session = await connect(); // the launcher sets the address
const w = await session.tensor("w", {
  shape: [FEATURES],
  optimizer: { type: "sgd", learningRate: 0.05 },
  consistency: { bsp: true, reduce: "mean" }, // a step counts once all workers have pushed
});

const truth = Float32Array.from({ length: FEATURES }, (_, i) => Math.sin(i)); // what the model is to find
for (let step = 1; step <= STEPS; step++) {
  const weights = await w.pull(); // waits for the step before
  const gradient = new Float32Array(FEATURES);
  let loss = 0;
  for (let sample = 0; sample < BATCH; sample++) {
    const x = Float32Array.from({ length: FEATURES }, () => Math.random() * 2 - 1);
    const error = x.reduce((sum, value, i) => sum + value * ((weights[i] ?? 0) - (truth[i] ?? 0)), 0);
    loss += (error * error) / BATCH;
    for (let i = 0; i < FEATURES; i++) gradient[i]! += (2 * error * (x[i] ?? 0)) / BATCH;
  }
  await w.push(gradient);
  session.clock(); // ends this worker's step
  if (step % 50 === 0) console.log(`step ${step}: loss ${loss.toFixed(6)}`);
}
