// 04-sparse-logistic-regression — which flights will be late? One weight per feature in a table on the servers, trained
// with FTRL by all workers at once, each on its own flights.

import { connect } from "weighbridge";
import { areaUnderCurve } from "./area-under-curve.ts";
import { FEATURES_PER_FLIGHT, type Flights, readFlights } from "./flights.ts";

const TRAIN_COUNT = Number(process.argv[2] ?? 200_000);
const TEST_COUNT = 40_000;
const BATCH = 1000;

const session = await connect();
const { rank, workerCount } = session;

// A table whose rows are one weight each. FTRL keeps weights of features that tell nothing at zero; it runs on the
// servers.
const weights = await session.embedding("weights", {
  dim: 1,
  optimizer: { type: "ftrl", alpha: 0.05, beta: 1, l1: 1, l2: 1 },
  consistency: { ssp: 4 },
});

const share = Math.floor(TRAIN_COUNT / workerCount);
const flights = await readFlights(rank * share, (rank + 1) * share);

const startedAt = performance.now();
let rowCount = 0;
for (let from = 0; from + BATCH <= flights.count; from += BATCH) {
  const { keys, positions } = featuresOf(flights, from, from + BATCH);
  const pulled = await weights.pull(keys);
  const gradients = new Float32Array(keys.length);
  for (let i = 0; i < BATCH; i++) {
    const error = sigmoid(scoreOf(pulled, positions, i)) - (flights.late[from + i] as number);
    for (let f = 0; f < FEATURES_PER_FLIGHT; f++) {
      const position = positions[i * FEATURES_PER_FLIGHT + f] as number;
      gradients[position] = (gradients[position] as number) + error;
    }
  }
  await weights.push(keys, gradients);
  session.clock(); // this batch is done; who is more than four batches ahead of the slowest worker waits in `pull`
  rowCount += 2 * keys.length;
}
const seconds = (performance.now() - startedAt) / 1e3;
console.log(`worker ${rank}: ${flights.count} flights, ${Math.round(rowCount / seconds / 1e3)} k rows/s pulled and pushed`);

await session.barrier();
if (rank === 0) {
  const test = await readFlights(TRAIN_COUNT, TRAIN_COUNT + TEST_COUNT);
  const { keys, positions } = featuresOf(test, 0, test.count);
  const pulled = await weights.pull(keys);
  const scores = Float64Array.from({ length: test.count }, (_, i) => scoreOf(pulled, positions, i));
  const kept = pulled.reduce((count, weight) => count + (weight === 0 ? 0 : 1), 0);
  console.log(
    `AUC ${areaUnderCurve(scores, test.late).toFixed(3)} on ${test.count} flights that came after; ${kept} of ${pulled.length} weights are not zero`,
  );
}
await session.close();

/** The features of some flights, each once, and where among them those of each flight are. */
function featuresOf(all: Flights, from: number, to: number): { keys: BigUint64Array; positions: Uint32Array } {
  const ascendingIndex = new Map<bigint, number>();
  const positions = Uint32Array.from(all.features.subarray(from * FEATURES_PER_FLIGHT, to * FEATURES_PER_FLIGHT), (key) => {
    const known = ascendingIndex.get(key) ?? ascendingIndex.size;
    ascendingIndex.set(key, known);
    return known;
  });
  return { keys: BigUint64Array.from(ascendingIndex.keys()), positions };
}

function scoreOf(pulled: Float32Array, positions: Uint32Array, flight: number): number {
  let score = 0;
  for (let f = flight * FEATURES_PER_FLIGHT; f < (flight + 1) * FEATURES_PER_FLIGHT; f++) score += pulled[positions[f] as number] as number;
  return score;
}

function sigmoid(score: number): number {
  return 1 / (1 + Math.exp(-score));
}
