// eviction-policy — which row of a full cache goes when another one comes. Rows are known by the slots they stand in, 0 to rows - 1; keys,
// values and updates are none of a policy's business.
//
//   lru        the row whose last use is longest ago
//   lfu        the row with the fewest uses; of those the one whose last use is longest ago
//   lfu-opt    as lfu, but a row stays for good from its tenth use on, and when all have come to stay no other is taken in (Hetu's LFUOpt)
//
// Invariants:
//   E1. `candidate` names a slot that was added and not removed, or NO_SLOT; it changes nothing.
//   E2. Every operation takes constant time and allocates nothing.

import { LfuPolicy } from "./lfu-policy.ts";
import { LruPolicy } from "./lru-policy.ts";
import { PermanentLfuPolicy } from "./permanent-lfu-policy.ts";

export interface EvictionPolicy {
  /** A row came to stand in this free slot: its first use. */
  add(slot: number): void;
  /** The row in this slot was used again. */
  touch(slot: number): void;
  /** The slot whose row should go first; NO_SLOT when none may (E1). */
  candidate(): number;
  /** The slot is free again. */
  remove(slot: number): void;
}

/** The names of the policies, as users give them. */
export const POLICY_NAMES = ["lru", "lfu", "lfu-opt"] as const;
export type PolicyName = (typeof POLICY_NAMES)[number];

export function evictionPolicy(name: PolicyName, slotCount: number): EvictionPolicy {
  switch (name) {
    case "lru":
      return new LruPolicy(slotCount);
    case "lfu":
      return new LfuPolicy(slotCount);
    case "lfu-opt":
      return new PermanentLfuPolicy(slotCount);
  }
}
