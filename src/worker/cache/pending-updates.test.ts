// pending-updates — Goal: what was added is there, summed and counted, until it is removed; an arena that is full
// changes nothing.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { Arena } from "../../kernel/arena.ts";
import { SimdKernels } from "../../kernel/simd-kernels.ts";
import { ArenaSpans } from "../arena-spans.ts";
import { PendingUpdates } from "./pending-updates.ts";

const WIDTH = 3;

class Stage {
  readonly arena: Arena;
  readonly pending: PendingUpdates;
  readonly memory: ArenaSpans;

  constructor(bytesMax = 2 ** 22) {
    const arena = new Arena({ shared: false, bytesMax });
    this.arena = arena;
    this.memory = new ArenaSpans(arena);
    this.pending = new PendingUpdates({ arena, kernels: new SimdKernels(arena), secret: 5 }, WIDTH);
  }

  keys(keys: readonly bigint[]): number {
    const address = this.memory.take(keys.length * 8);
    new BigUint64Array(this.arena.memory.buffer, address, keys.length).set(keys);
    return address;
  }

  add(keys: readonly bigint[], value: number): void {
    const floats = this.memory.take(keys.length * WIDTH * 4);
    this.arena.floats.fill(value, floats >>> 2, (floats >>> 2) + keys.length * WIDTH);
    this.pending.add(this.keys(keys), keys.length, floats, this.memory);
  }

  /** Of each key the updates and the last element of the gradients. */
  read(keys: readonly bigint[]): unknown[] {
    const list = this.memory.take(keys.length * 4);
    this.pending.find(this.keys(keys), keys.length, list);
    return keys.map((_, i) => {
      const at = this.arena.words[(list >>> 2) + i] as number;
      return at === 0 ? undefined : [this.pending.updatesAt(at), this.arena.floats[(at >>> 2) + WIDTH - 1]];
    });
  }
}

test("updates of a key are summed and counted until they are removed", () => {
  const stage = new Stage();
  const last = 2n ** 64n - 1n;
  stage.add([0n, last, 7n], 2);
  stage.add([7n, 0n], 0.5);
  assert.deepEqual(stage.read([7n, 8n, last, 0n]), [[2, 2.5], undefined, [1, 2], [2, 2.5]]);
  stage.pending.remove(stage.keys([7n, 8n]), 2);
  assert.deepEqual(stage.read([7n, 0n]), [undefined, [2, 2.5]]);
  stage.add([7n], 1);
  assert.deepEqual(stage.read([7n]), [[1, 1]], "begins anew");
});

test("all keys are listed, each once", () => {
  const stage = new Stage(2 ** 24);
  const keys = Array.from({ length: 7000 }, (_, i) => BigInt(i) << 31n);
  stage.add(keys, 1);
  assert.equal(stage.pending.rowCount, 7000);
  const out = stage.memory.take(7000 * 8);
  stage.pending.copyKeys(out, stage.memory);
  const listed = new BigUint64Array(stage.arena.memory.buffer, out, 7000).slice().sort();
  assert.deepEqual([...listed], keys);
});

test("an arena that is full refuses the updates and keeps those that were there (PendingUpdates.P1)", () => {
  const stage = new Stage(2 ** 20);
  stage.add([1n], 1);
  let added = 0;
  assert.throws(
    () => {
      for (; added < 100; added++) {
        stage.add(
          Array.from({ length: 1000 }, (_, i) => BigInt(added * 1000 + i + 10)),
          1,
        );
        stage.memory.release();
      }
    },
    (error) => isWeighbridgeError(error, "ARENA_FULL"),
  );
  stage.memory.release();
  assert.equal(stage.pending.rowCount, added * 1000 + 1);
  assert.deepEqual(stage.read([1n]), [[1, 1]]);
});
