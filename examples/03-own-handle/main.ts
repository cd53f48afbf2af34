// 03-own-handle — a server that decides itself what a push means and when a pull is answered. Here: synchronous
// training (BSP) with momentum. Each worker sends its gradient and asks for the new weights in one call; the server
// answers nobody until it has heard everybody.

import { type KVMeta, type KVPairs, type KVRequestHandle, KVServer, KVWorker } from "weighbridge/kv";
import { start } from "weighbridge/node";

const APP = 0;
const WEIGHT_COUNT = 64;
const ROUND_COUNT = 200;
const LEARNING_RATE = 0.1;
const MOMENTUM = 0.8;

function momentumHandle(workerCount: number): KVRequestHandle {
  const weights = new Map<bigint, { value: number; velocity: number }>();
  let waiting: { readonly meta: KVMeta; readonly pairs: KVPairs }[] = [];
  return (meta, pairs, server) => {
    waiting.push({ meta, pairs });
    if (waiting.length < workerCount) return; // Its answer comes with the last one's.

    // In the order of the workers, so that every run adds in the same order and gets the same bits.
    const round = waiting.sort((a, b) => a.meta.sender - b.meta.sender);
    waiting = [];
    const vals = new Float32Array(pairs.keys.length);
    pairs.keys.forEach((key, i) => {
      const weight = weights.get(key) ?? { value: 0, velocity: 0 };
      const gradient = round.reduce((sum, request) => sum + Number(request.pairs.vals[i]), 0) / workerCount;
      weight.velocity = MOMENTUM * weight.velocity - LEARNING_RATE * gradient;
      weight.value += weight.velocity;
      weights.set(key, weight);
      vals[i] = weight.value;
    });
    for (const request of round) server.response(request.meta, { vals });
  };
}

/** What worker `rank` would like weight `i` to be. Together they have to settle on the mean. */
function wish(rank: number, i: number): number {
  return Math.sin(i + 1) * (rank + 1);
}

const office = await start();
if (office.isServer) new KVServer(office, APP).setRequestHandle(momentumHandle(office.numWorkers));

if (office.isWorker) {
  const kv = new KVWorker(office, APP);
  const step = 2n ** 64n / BigInt(WEIGHT_COUNT);
  const keys = BigUint64Array.from({ length: WEIGHT_COUNT }, (_, i) => BigInt(i) * step);
  const weights = new Float32Array(WEIGHT_COUNT);
  for (let round = 0; round < ROUND_COUNT; round++) {
    const gradients = weights.map((weight, i) => weight - wish(office.myRank, i));
    await kv.wait(kv.pushPull(keys, gradients, weights));
  }

  // Wishes grow evenly with the rank, so that this one's is the mean of all.
  const meanRank = (office.numWorkers - 1) / 2;
  const worst = Math.max(...weights.map((weight, i) => Math.abs(weight - wish(meanRank, i))));
  if (!(worst < 1e-4)) throw new Error(`the weights are ${worst} away from the mean of all wishes`);
  console.log(`after ${ROUND_COUNT} rounds in step the weights are within ${worst.toExponential(1)} of what all workers want together`);
}

await office.finalize();
