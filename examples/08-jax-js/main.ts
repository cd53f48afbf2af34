// 08-jax-js — two spirals, told apart by a small network in jax-js. The network is a function of a tree of arrays; the
// tree lives on the parameter servers.

import * as jax from "@jax-js/jax";
import { connect } from "weighbridge";
import { PsParameters } from "weighbridge/jax";

const { numpy: np, random, tree, jit, valueAndGrad } = jax;
const STEP_COUNT = Number(process.argv[2] ?? 300);
const BATCH = 64;

type Weights = Readonly<Record<"in" | "middle" | "out", { readonly kernel: jax.Array; readonly bias: jax.Array }>>;

await jax.init("wasm");
jax.defaultDevice("wasm");
const session = await connect();
const { rank, workerCount } = session;

// The same key on every worker draws the same weights; had they others, those of the first to come would count.
const [a, b, c] = [1, 2, 3].map((seed) => random.key(seed)) as [jax.Array, jax.Array, jax.Array];
const parameters = await PsParameters.create(
  jax,
  session,
  {
    in: { kernel: random.normal(a, [2, 32]), bias: np.zeros([32]) },
    middle: { kernel: random.normal(b, [32, 32]).mul(0.2), bias: np.zeros([32]) },
    out: { kernel: random.normal(c, [32, 1]).mul(0.2), bias: np.zeros([1]) },
  },
  { optimizer: { type: "adam", learningRate: 0.01 } },
);
if (rank === 0) console.log(`on ${session.serverCount} servers: ${parameters.names.join(", ")}`);

const step = jit(valueAndGrad(loss));
let weights: Weights = await parameters.pull();
let last = 0;
for (let i = 0; i < STEP_COUNT; i++) {
  const { points, sides } = spirals(BATCH, i * workerCount + rank);
  const [value, gradients] = step(weights, points, sides);
  last = (await value.data())[0] as number;
  // Pushes gradients, ends the clock, and brings what all workers' gradients made.
  weights = await parameters.step(gradients);
}
console.log(`worker ${rank}: ${STEP_COUNT} steps of ${BATCH} points, loss ${last.toFixed(4)}`);

if (rank === 0) {
  const test = spirals(1000, 1_000_000_007);
  const guesses = await scores(tree.ref(weights), test.points).data();
  const truth = (await test.sides.data()) as Float32Array;
  const right = truth.reduce((count, side, i) => count + ((guesses[i] as number) > 0 === side > 0 ? 1 : 0), 0);
  console.log(`${((100 * right) / 1000).toFixed(1)} % of 1000 new points are on the right spiral`);
}
tree.dispose(weights);
await session.close();

function scores(w: Weights, points: jax.Array): jax.Array {
  const first = np.tanh(np.dot(points, w.in.kernel).add(w.in.bias));
  const second = np.tanh(np.dot(first, w.middle.kernel).add(w.middle.bias));
  return np.dot(second, w.out.kernel).add(w.out.bias);
}

/** The mean of log(1 + e^(−side · score)). */
function loss(w: Weights, points: jax.Array, sides: jax.Array): jax.Array {
  return np.log(np.exp(scores(w, points).mul(sides).neg()).add(1)).mean();
}

/** Points on two spirals, and on which: 1 or −1. The same for the same seed. */
function spirals(count: number, seed: number): { points: jax.Array; sides: jax.Array } {
  const points = new Float32Array(2 * count);
  const sides = new Float32Array(count);
  for (let i = 0; i < count; i++) {
    const draw = fraction(seed * count + i);
    const angle = 3 * Math.PI * Math.sqrt(draw);
    const side = i % 2 === 0 ? 1 : -1;
    points[2 * i] = (side * angle * Math.cos(angle)) / 5;
    points[2 * i + 1] = (side * angle * Math.sin(angle)) / 5;
    sides[i] = side;
  }
  return { points: np.array(points, { shape: [count, 2] }), sides: np.array(sides, { shape: [count, 1] }) };
}

/** A number in [0, 1) that looks drawn. */
function fraction(n: number): number {
  const x = Math.sin(n + 1) * 43_758.5453;
  return x - Math.floor(x);
}
