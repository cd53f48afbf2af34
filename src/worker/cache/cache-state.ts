// cache-state — the parts of one cache, as its operations share them.
//
// Invariants:
//   C1. A cache that finds no room takes none: what was opened of it is closed again.

import type { ResolvedOptimizer } from "../../store/updaters/optimizer-spec.ts";
import type { RowPlanner } from "../router/row-plan.ts";
import type { CacheCounters } from "./cache-statistics.ts";
import { CachedRows, type CachedRowsOptions } from "./cached-rows.ts";
import type { HeldPushes } from "./held-pushes.ts";
import { LocalOptimizer } from "./local-optimizer.ts";
import { type CacheKernels, PendingUpdates } from "./pending-updates.ts";

export type CacheState = CacheKernels & {
  readonly planner: RowPlanner;
  readonly width: number;
  readonly cached: CachedRows;
  readonly pending: PendingUpdates;
  readonly held: HeldPushes;
  readonly optimizer: LocalOptimizer;
  readonly counters: CacheCounters;
};

/** What a cache keeps in the arena. Throws ARENA_FULL (C1). */
export function openParts(
  kernels: CacheKernels,
  options: CachedRowsOptions & { readonly optimizer: ResolvedOptimizer },
): Pick<CacheState, "cached" | "pending" | "optimizer"> {
  const { width, secret, optimizer } = options;
  const opened: { close(): void }[] = [];
  try {
    const cached = new CachedRows(kernels, options);
    opened.push(cached);
    const pending = new PendingUpdates(kernels, width, secret);
    opened.push(pending);
    return { cached, pending, optimizer: new LocalOptimizer(kernels.arena, kernels.optimizers, optimizer, width) };
  } catch (thrown) {
    for (const part of opened) part.close();
    throw thrown;
  }
}
