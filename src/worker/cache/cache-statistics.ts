// cache-statistics — what a cache has done since it was made. Plain numbers that only rise, but for the last two.

import type { NonFiniteCounts } from "../../store/updaters/updater.ts";

/** What a cache has done since it was opened. The numbers only rise, but for the last two. */
export type CacheStatistics = {
  /** Keys that pulls named. */
  readonly keysLookedUp: number;
  /** How many of them differed within their pull. */
  readonly rowsLookedUp: number;
  /** Of those rows: answered from the cache. */
  readonly hits: number;
  /** Of those rows: in the cache, but too far behind. */
  readonly stale: number;
  /** Of those rows: not in the cache. */
  readonly misses: number;
  /** Rows that updates named, each once per update. */
  readonly rowsUpdated: number;
  /** Rows whose pending updates were pushed and acknowledged. */
  readonly rowsPushed: number;
  /** Rows that left the cache to make room. */
  readonly evictions: number;
  /** Times that a server began a new generation of versions, so that all copies were dropped. */
  readonly resyncs: number;
  /** Updates that were refused because they were not finite (`nonFinite: "refuse"`). */
  readonly refusedPushes: number;
  /** Updates that were dropped because they were not finite (`nonFinite: "skip"`). */
  readonly skippedPushes: number;
  /** Elements that were set to 0 because they were not finite (`nonFinite: "zero"`). */
  readonly zeroedElements: number;
  /** Rows in the cache now. */
  readonly rowsCached: number;
  /** Rows with updates that wait to be pushed, now. */
  readonly rowsPending: number;
};

/** As the cache counts itself; the others are asked for. */
export type CacheCounters = {
  -readonly [Name in keyof CacheStatistics as Exclude<Name, keyof NonFiniteCounts | "rowsCached" | "rowsPending">]: CacheStatistics[Name];
};
