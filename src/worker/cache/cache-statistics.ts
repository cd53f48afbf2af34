// cache-statistics — what a cache has done since it was made. Plain numbers that only rise, but for the last two.

import type { NonFiniteCounts } from "../../store/updaters/updater.ts";

export type CacheStatistics = {
  /** Keys that lookups named, and how many of them differed within their lookup. */
  readonly keysLookedUp: number;
  readonly rowsLookedUp: number;
  /** Of those rows: answered from the cache; in the cache, but too far behind; not in the cache. */
  readonly hits: number;
  readonly stale: number;
  readonly misses: number;
  /** Rows that updates named, each once per update. */
  readonly rowsUpdated: number;
  /** Rows whose pending updates were pushed and acknowledged. */
  readonly rowsPushed: number;
  readonly evictions: number;
  /** Times that a server began a new generation of versions, so that all copies were dropped. */
  readonly resyncs: number;
  /** Updates that were not finite: refused, skipped, or elements set to 0, as the optimizer's `nonFinite` says. */
  readonly refusedPushes: number;
  readonly skippedPushes: number;
  readonly zeroedElements: number;
  /** Rows in the cache, and rows with pending updates, now. */
  readonly rowsCached: number;
  readonly rowsPending: number;
};

/** As the cache counts itself; the others are asked for. */
export type CacheCounters = {
  -readonly [Name in keyof CacheStatistics as Exclude<Name, keyof NonFiniteCounts | "rowsCached" | "rowsPending">]: CacheStatistics[Name];
};
