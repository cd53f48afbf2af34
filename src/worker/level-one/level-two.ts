// level-two — what stands above the devices of a machine: it takes the result of a round of level 1 and puts back the
// one that counts. Between machines that is servers or an all-reduce; a user's updater has the same place.
//
// Invariants:
//   LevelTwo.T1. It is called by the owner of the model alone, for one round of a key at a time, in their order; for
//       different keys at the same time, those of higher priority first.

import type { WaitOptions } from "../../base/deferred.ts";
import type { RowArray } from "../../kernel/row-element.ts";
import type { KeyPlan } from "./model-backend.ts";

/** A round of level 1. */
export type CompletedRound = {
  readonly plan: KeyPlan;
  /** From 1 up. */
  readonly round: number;
  /** The highest that its devices gave. */
  readonly priority: number;
  /** What level 1 made of the round. What is in here when `exchange` resolves is handed out to every device. */
  readonly values: RowArray;
  /** How many devices pushed. */
  readonly deviceCount: number;
};

export interface LevelTwo {
  /** Called once, before everything else. */
  open?(wait: WaitOptions): Promise<void>;
  /**
   * Called once for each key, before its first round. If it resolves to values, the key has weights: those are what a
   * pull before any push gets. They are copied.
   */
  openKey(plan: KeyPlan): RowArray | undefined | Promise<RowArray | undefined>;
  /** If it rejects, the pulls of this round reject with the same error; later rounds go on. */
  exchange(round: CompletedRound): void | Promise<void>;
  /** The weights of a key, set from outside between rounds (`setWeight`). */
  setWeights?(plan: KeyPlan, values: RowArray): void | Promise<void>;
  /** Ends exchanges that are under way: they reject. */
  close(): void | Promise<void>;
}
