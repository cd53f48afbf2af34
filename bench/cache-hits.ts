// cache-hits — what a hit costs in the core of the caches of rows: one row pinned, read and let go, as an accessor of a
// process cache does it, and a list of keys looked up at once, as an operation of the others does it. One thread, rows
// of 16 floats, keys by chance of a cache that is full; the best of several runs.
//
//   node bench/cache-hits.ts [--runs 20]

import { parseArgs } from "node:util";
import { Random } from "../src/base/random.ts";
import { RowCache } from "../src/worker/cache/row-cache.ts";
import { sharedBytes } from "../src/worker/cache/shared-rows.ts";

const WIDTH = 16;
const LIST = 2048;
const LISTS = 32;

const { values } = parseArgs({ options: { runs: { type: "string", default: "20" } } });
const runs = Number(values.runs);

function fullCache(slotCount: number): { readonly cache: RowCache; readonly words: Uint32Array; readonly keysAt: number } {
  const rows = sharedBytes(slotCount);
  const keysAt = rows + slotCount * WIDTH * 4;
  const buffer = new SharedArrayBuffer(keysAt + LISTS * LIST * 8);
  const cache = new RowCache({ buffer, address: 0, rows, slotCount, rowBytes: WIDTH * 4, secret: 0x5eed });
  for (let key = 0; key < slotCount; key++) cache.fill(cache.takeFree(), key * 7919, 0);
  const words = new Uint32Array(buffer);
  const random = new Random(3);
  for (let i = 0; i < LISTS * LIST; i++) words[(keysAt >>> 2) + 2 * i] = random.below(slotCount) * 7919;
  return { cache, words, keysAt };
}

function best(run: () => void): number {
  let ms = Infinity;
  for (let i = 0; i < runs; i++) {
    const began = performance.now();
    run();
    ms = Math.min(ms, performance.now() - began);
  }
  return (ms * 1e6) / (LISTS * LIST);
}

for (const slotCount of [10_000, 100_000, 1_000_000]) {
  const { cache, words, keysAt } = fullCache(slotCount);
  const floats = new Float32Array(cache.memory.buffer);
  const slots = new Int32Array(LIST);
  const read = new Float32Array(WIDTH);
  const pinned = best(() => {
    for (let i = 0; i < LISTS * LIST; i++) {
      const slot = cache.pin(words[(keysAt >>> 2) + 2 * i] as number, 0);
      const at = cache.addressOf(slot) >>> 2;
      for (let j = 0; j < WIDTH; j++) read[j] = floats[at + j] as number;
      cache.unpin(slot);
    }
  });
  const listed = best(() => {
    for (let i = 0; i < LISTS; i++) cache.findAll(keysAt + i * LIST * 8, slots);
  });
  process.stdout.write(
    `${String(slotCount).padStart(9)} rows: pinned, read and let go ${pinned.toFixed(0)} ns (${(1000 / pinned).toFixed(1)} M/s); in a list ${listed.toFixed(1)} ns a key\n`,
  );
}
