// eviction-order — Goal: every policy has its rows in the order that its definition says, and no others.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../base/random.ts";
import { EvictionOrder, NO_SLOT, PERMANENT_USES, POLICY_NAMES, type PolicyName } from "./eviction-order.ts";

type Row = { readonly slot: number; uses: number; lastUse: number };

/** The definition of each policy, over a plain list. */
const DEFINITIONS: Readonly<Record<PolicyName, (rows: readonly Row[]) => Row[]>> = {
  lru: (rows) => [...rows].sort((one, other) => one.lastUse - other.lastUse),
  lfu: (rows) => [...rows].sort(byUses),
  "lfu-opt": (rows) => rows.filter(({ uses }) => uses < PERMANENT_USES).sort(byUses),
};

function byUses(one: Row, other: Row): number {
  return one.uses - other.uses || one.lastUse - other.lastUse;
}

function slotsOf(order: EvictionOrder): number[] {
  const slots: number[] = [];
  for (let slot = order.next(); slot !== NO_SLOT; slot = order.next(slot)) slots.push(slot);
  return slots;
}

for (const name of POLICY_NAMES) {
  test(`${name}: the order is the one of its definition after any history of 4,000 steps`, () => {
    for (let seed = 1; seed <= 10; seed++) {
      const random = new Random(seed);
      const slotCount = 1 + random.below(12);
      const order = new EvictionOrder(name, slotCount);
      const rows = new Map<number, Row>();
      for (let step = 0; step < 400; step++) {
        const slot = random.below(slotCount);
        const row = rows.get(slot);
        if (row === undefined) {
          order.add(slot);
          rows.set(slot, { slot, uses: 1, lastUse: step });
        } else if (random.chance(0.15)) {
          order.remove(slot);
          rows.delete(slot);
        } else {
          order.touch(slot);
          row.uses++;
          row.lastUse = step;
        }
        const expected = DEFINITIONS[name]([...rows.values()]).map((one) => one.slot);
        assert.deepEqual(slotsOf(order), expected, `seed ${seed}, step ${step}`);
      }
    }
  });

  test(`${name}: an empty cache has no candidate, and one of one row has that row`, () => {
    const order = new EvictionOrder(name, 1);
    assert.equal(order.next(), NO_SLOT);
    order.add(0);
    assert.deepEqual(slotsOf(order), [0]);
    order.remove(0);
    assert.equal(order.next(), NO_SLOT);
  });
}

test("lfu-opt: rows with ten uses stay, and when all do nothing can go", () => {
  const order = new EvictionOrder("lfu-opt", 2);
  order.add(0);
  order.add(1);
  for (let uses = 1; uses < PERMANENT_USES; uses++) order.touch(0);
  assert.deepEqual(slotsOf(order), [1]);
  for (let uses = 1; uses < PERMANENT_USES; uses++) order.touch(1);
  assert.equal(order.next(), NO_SLOT);
  order.remove(0);
  order.add(0);
  assert.deepEqual(slotsOf(order), [0], "it begins anew");
});
