// cache-state — the parts of one cache, as its operations share them.

import type { RowPlanner } from "../row-plan.ts";
import type { CacheCounters } from "./cache-statistics.ts";
import type { CachedRows } from "./cached-rows.ts";
import type { LocalOptimizer } from "./local-optimizer.ts";
import type { CacheKernels, PendingUpdates } from "./pending-updates.ts";

export type CacheState = CacheKernels & {
  readonly planner: RowPlanner;
  readonly width: number;
  readonly cached: CachedRows;
  readonly pending: PendingUpdates;
  readonly optimizer: LocalOptimizer;
  readonly counters: CacheCounters;
};
