// row-plan — Goal: every key of a request is sent once, to its owner, with the sum of its gradients, and its row comes
// back to wherever it was named; and a plan gives back all memory it took.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { isWeighbridgeError } from "../../base/errors.ts";
import { Arena } from "../../kernel/arena.ts";
import { partOf } from "../../keys/placement.ts";
import { rangePlacement } from "../../keys/placement-of.ts";
import { RowPlanner } from "./row-plan.ts";

const WIDTH = 3;
const placementOf = (count: number) => rangePlacement({ servers: Array.from({ length: count }, (_, rank) => rank), epoch: 0 });
const ownerOf = (placement: ReturnType<typeof placementOf>, key: bigint): number =>
  placement.ownerOf(partOf(Number(key & 0xffff_ffffn), Number(key >> 32n)));

test("keys are sent once and to their owner, gradients added in the order of the list, rows brought back (RowPlan.R1)", () => {
  for (const serverCount of [1, 2, 5]) {
    const placement = placementOf(serverCount);
    const planner = new RowPlanner(new Arena({ bytesMax: 2 ** 24, shared: false }), { placement }, 7);
    const idleBytes = planner.arena.usedBytes;
    const key = fc.oneof(fc.bigInt({ min: 0n, max: 20n }), fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }));
    fc.assert(
      fc.property(fc.array(key, { minLength: 1, maxLength: 200 }), (list) => {
        const keys = BigUint64Array.from(list);
        const plan = planner.plan(keys);
        const sent = plan.parts.flatMap(({ keys: own }) => [...own]);
        assert.deepEqual(new Set(sent), new Set(list));
        assert.equal(sent.length, plan.rowCount, "each once");
        let from = 0;
        for (const part of plan.parts) {
          assert.equal(part.from, from);
          for (const own of part.keys) assert.equal(ownerOf(placement, own), part.server);
          from += part.keys.length;
        }
        const values = Float32Array.from({ length: list.length * WIDTH }, (_, i) => i);
        const gradients = plan.gradients(values, WIDTH);
        const landed = plan.landing(new Float32Array(values.length), WIDTH);
        sent.forEach((one, k) => {
          let sum = 0;
          list.forEach((other, i) => {
            if (other === one) sum += values[i * WIDTH + 2] as number;
          });
          assert.equal(gradients[k * WIDTH + 2], sum);
          landed.fill(Number(one % 1009n), k * WIDTH, (k + 1) * WIDTH);
        });
        const into = serverCount === 1 && sent.length === list.length ? landed : new Float32Array(values.length);
        plan.deliver(landed, into, WIDTH);
        for (const [i, one] of list.entries()) assert.equal(into[i * WIDTH + 1], Number(one % 1009n));
        plan.release();
        assert.equal(planner.arena.usedBytes, idleBytes);
      }),
      { numRuns: 60 },
    );
  }
});

test("different keys to one server travel from and to the caller's own arrays", () => {
  const planner = new RowPlanner(new Arena({ bytesMax: 2 ** 22, shared: false }), { placement: placementOf(1) }, 7);
  const keys = BigUint64Array.of(9n, 3n, 2n ** 64n - 1n);
  const plan = planner.plan(keys);
  const values = new Float32Array(9);
  assert.equal(plan.parts[0]?.keys, keys);
  assert.equal(plan.gradients(values, 3), values);
  assert.equal(plan.landing(values, 3), values);
});

test("a plan that finds no room leaves nothing behind", () => {
  const planner = new RowPlanner(new Arena({ bytesMax: 2 ** 20, shared: false }), { placement: placementOf(3) }, 7);
  const idleBytes = planner.arena.usedBytes;
  assert.throws(
    () => planner.plan(new BigUint64Array(100_000)),
    (error) => isWeighbridgeError(error, "ARENA_FULL"),
  );
  assert.equal(planner.arena.usedBytes, idleBytes);
});
