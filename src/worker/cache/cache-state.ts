// cache-state — the parts of a CachedEmbedding, as its operations share them: the rows, what is pending, and what can
// be done with both. It owns their memory.
//
// Invariants:
//   CacheState.C1. A cache that finds no room takes none: what was opened of it is closed again.

import type { Arena } from "../../kernel/arena.ts";
import { FLOAT_BYTES } from "../../kernel/elements.ts";
import { type RowKernels, simdRowKernels } from "../../kernel/row-kernels.ts";
import type { ResolvedOptimizer } from "../../store/updaters/optimizer-spec.ts";
import { ArenaSpans } from "../arena-spans.ts";
import type { RowPlanner } from "../router/row-plan.ts";
import type { CacheCounters } from "./cache-statistics.ts";
import type { PolicyName } from "./eviction-order.ts";
import { LocalOptimizer } from "./local-optimizer.ts";
import { PendingUpdates } from "./pending-updates.ts";
import { RowCache } from "./row-cache.ts";
import { sharedBytes } from "./shared-rows.ts";
import { UnsettledPushes } from "./unsettled-pushes.ts";

export type CacheStateOptions = {
  readonly rows: number;
  readonly width: number;
  readonly policy: PolicyName;
  readonly optimizer: ResolvedOptimizer;
};

export class CacheState {
  readonly planner: RowPlanner;
  readonly arena: Arena;
  readonly rowKernels: RowKernels;
  readonly width: number;
  readonly cached: RowCache;
  readonly pending: PendingUpdates;
  readonly unsettled: UnsettledPushes = new UnsettledPushes();
  readonly optimizer: LocalOptimizer;
  readonly counters: CacheCounters = {
    keysLookedUp: 0,
    rowsLookedUp: 0,
    hits: 0,
    stale: 0,
    misses: 0,
    rowsUpdated: 0,
    rowsPushed: 0,
    evictions: 0,
    resyncs: 0,
  };
  readonly #opened: (() => void)[] = [];

  /** Throws ARENA_FULL (CacheState.C1). */
  constructor(planner: RowPlanner, { rows: slotCount, width, policy, optimizer }: CacheStateOptions) {
    const { arena, secret } = planner;
    const rowBytes = width * FLOAT_BYTES;
    const spans = new ArenaSpans(arena);
    this.planner = planner;
    this.arena = arena;
    this.rowKernels = simdRowKernels(arena);
    this.width = width;
    this.#opened.push(() => spans.release());
    try {
      const [address, rows] = [spans.take(sharedBytes(slotCount)), spans.take(slotCount * rowBytes)];
      this.cached = new RowCache({ buffer: arena.memory.buffer, address, rows, slotCount, rowBytes, secret }, policy);
      this.pending = new PendingUpdates(planner, width);
      this.#opened.push(() => this.pending.close());
      this.optimizer = new LocalOptimizer(arena, optimizer, width);
      this.#opened.push(() => this.optimizer.close());
    } catch (thrown) {
      this.close();
      throw thrown;
    }
  }

  close(): void {
    for (const close of this.#opened.splice(0)) close();
  }
}
