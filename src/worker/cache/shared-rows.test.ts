// shared-rows — Goal: threads that read a cache while its owner changes it see whole rows of the keys that they asked
// for, or none.

import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { Worker } from "node:worker_threads";
import { Random } from "../../base/random.ts";
import { NO_SLOT } from "./eviction-order.ts";
import { RowCache } from "./row-cache.ts";
import { type RowMemory, sharedBytes } from "./shared-rows.ts";

const KEYS = 300;
const SLOTS = 64;
const WIDTH = 64;
const CHANGES = 200_000;

/** A reader: pins rows by chance until it is told to stop; every float of a row is 1000 · version + key. */
const READER = `
  const { workerData, parentPort } = require("node:worker_threads");
  import(workerData.module).then(({ SharedRows }) => {
    const rows = new SharedRows(workerData.memory);
    const floats = new Float32Array(workerData.memory.buffer);
    const stop = new Int32Array(workerData.stop);
    const counts = { hits: 0, misses: 0, tooOld: 0, wrong: 0 };
    parentPort.postMessage("ready");
    for (let i = workerData.seed; Atomics.load(stop, 0) === 0; i++) {
      const key = Math.imul(i, 0x9e3779b1) >>> 8;
      const versionMin = i % 3;
      const slot = rows.pin(key % ${KEYS}, 0, versionMin);
      if (slot < 0) { counts.misses++; continue; }
      counts.hits++;
      const version = rows.versionOf(slot);
      if (version < versionMin) counts.tooOld++;
      const at = rows.addressOf(slot) >>> 2;
      for (let j = 0; j < ${WIDTH}; j++) if (floats[at + j] !== 1000 * version + (key % ${KEYS})) { counts.wrong++; break; }
      rows.unpin(slot);
    }
    parentPort.postMessage(counts);
  });
`;

type Counts = { readonly hits: number; readonly misses: number; readonly tooOld: number; readonly wrong: number };

function write(cache: RowCache, floats: Float32Array, slot: number, value: number): void {
  const at = cache.addressOf(slot) >>> 2;
  for (let i = 0; i < WIDTH; i++) floats[at + i] = value;
}

/** Brings rows in, evicts others and writes those that are here, by chance. */
function change(cache: RowCache, random: Random): { readonly evictions: number; readonly writes: number } {
  const floats = new Float32Array(cache.memory.buffer);
  let [evictions, writes] = [0, 0];
  for (let i = 0; i < CHANGES; i++) {
    const key = random.below(KEYS);
    const version = random.below(4);
    const held = cache.find(key, 0);
    if (held !== NO_SLOT) {
      if (!cache.claim(held)) continue; // somebody reads it
      write(cache, floats, held, 1000 * version + key);
      cache.setVersion(held, version);
      cache.publish(held);
      writes++;
      continue;
    }
    let slot = cache.takeFree();
    if (slot === NO_SLOT) {
      slot = cache.evict(Infinity);
      if (slot === NO_SLOT) continue;
      evictions++;
    }
    write(cache, floats, slot, 1000 * version + key);
    cache.fill(slot, key, 0, version);
  }
  return { evictions, writes };
}

test("threads that pin rows while the owner evicts and writes them see whole rows of their keys alone, none too old (SharedRows.S1, SharedRows.S2)", async () => {
  const rows = 64 + sharedBytes(SLOTS);
  const buffer = new SharedArrayBuffer(rows + SLOTS * WIDTH * 4);
  const memory: RowMemory = { buffer, address: 64, rows, slotCount: SLOTS, rowBytes: WIDTH * 4, secret: 99 };
  const cache = new RowCache(memory);
  const stop = new SharedArrayBuffer(4);
  const module = new URL("shared-rows.ts", import.meta.url).href;
  const readers = [1, 2].map((seed) => new Worker(READER, { eval: true, workerData: { memory, stop, seed: seed * 1_000_003, module } }));
  try {
    await Promise.all(readers.map((reader) => once(reader, "message")));
    const { evictions, writes } = change(cache, new Random(7));
    Atomics.store(new Int32Array(stop), 0, 1);
    const told = (await Promise.all(readers.map((reader) => once(reader, "message")))) as [Counts][];
    for (const [counts] of told) {
      assert.deepEqual([counts.wrong, counts.tooOld], [0, 0]);
      assert.ok(counts.hits > 1000 && counts.misses > 1000, JSON.stringify(counts));
    }
    assert.ok(evictions > 1000 && writes > 1000, `${evictions} evictions, ${writes} writes`);
    assert.deepEqual(
      cache.held().filter((slot) => !cache.claim(slot)),
      [],
      "nothing is pinned in the end",
    );
  } finally {
    await Promise.all(readers.map((reader) => reader.terminate()));
  }
});
