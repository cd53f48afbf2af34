// eviction-policy — Goal: every policy names the row that its definition says, and nothing else.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../base/random.ts";
import { evictionPolicy, POLICY_NAMES, type PolicyName } from "./eviction-policy.ts";
import { PERMANENT_USES } from "./permanent-lfu-policy.ts";
import { NO_SLOT } from "./slot-lists.ts";

type Row = { readonly slot: number; uses: number; lastUse: number };

/** The definition of each policy, over a plain list. */
const DEFINITIONS: Readonly<Record<PolicyName, (rows: readonly Row[]) => number>> = {
  lru: (rows) => first(rows, (one, other) => one.lastUse - other.lastUse),
  lfu: (rows) => first(rows, byUses),
  "lfu-opt": (rows) =>
    first(
      rows.filter(({ uses }) => uses < PERMANENT_USES),
      byUses,
    ),
};

function byUses(one: Row, other: Row): number {
  return one.uses - other.uses || one.lastUse - other.lastUse;
}

function first(rows: readonly Row[], order: (one: Row, other: Row) => number): number {
  return [...rows].sort(order)[0]?.slot ?? NO_SLOT;
}

for (const name of POLICY_NAMES) {
  test(`${name}: the candidate is the one of its definition after any history of 4,000 steps`, () => {
    for (let seed = 1; seed <= 10; seed++) {
      const random = new Random(seed);
      const slotCount = 1 + random.below(12);
      const policy = evictionPolicy(name, slotCount);
      const rows = new Map<number, Row>();
      for (let step = 0; step < 400; step++) {
        const slot = random.below(slotCount);
        const row = rows.get(slot);
        if (row === undefined) {
          policy.add(slot);
          rows.set(slot, { slot, uses: 1, lastUse: step });
        } else if (random.chance(0.15)) {
          policy.remove(slot);
          rows.delete(slot);
        } else {
          policy.touch(slot);
          row.uses++;
          row.lastUse = step;
        }
        assert.equal(policy.candidate(), DEFINITIONS[name]([...rows.values()]), `seed ${seed}, step ${step}`);
      }
    }
  });

  test(`${name}: an empty cache has no candidate, and one of one row has that row`, () => {
    const policy = evictionPolicy(name, 1);
    assert.equal(policy.candidate(), NO_SLOT);
    policy.add(0);
    assert.equal(policy.candidate(), 0);
    policy.remove(0);
    assert.equal(policy.candidate(), NO_SLOT);
  });
}

test("lfu-opt: rows with ten uses stay, and when all do nothing can go", () => {
  const policy = evictionPolicy("lfu-opt", 2);
  policy.add(0);
  policy.add(1);
  for (let uses = 1; uses < PERMANENT_USES; uses++) policy.touch(0);
  assert.equal(policy.candidate(), 1);
  for (let uses = 1; uses < PERMANENT_USES; uses++) policy.touch(1);
  assert.equal(policy.candidate(), NO_SLOT);
});
