// cached-rows — what a cache of rows with bounded staleness asks of a table with versions: updates that count for
// several, and only the rows that are too far behind (Hetu: PushEmbedding, SyncEmbedding, PushSyncEmbedding, the last
// of which was not atomic).
//
// Invariants:
//   CachedRows.C1. A row that the cache does not have costs what a plain pull of it costs, and 4 bytes of version if it
//       is to be kept; one that it has and that is fresh enough costs its key and version.
//   CachedRows.C2. Every answer says at which learning rate updates of the caller's clock are applied, so that a cache
//       applies its own to its copies exactly as the server does.

import type { FieldValues } from "../wire/function-schema.ts";
import { type Contract, contract } from "./contract.ts";

const pushRequest = {
  parameter: "u32",
  clock: "u32",
  pushNumber: "u32",
  scale: "f32",
  pushKeys: "u64[]",
  gradients: "f32[]",
  /** How many updates each gradient sums up; none at all: one each. */
  updates: "u32[]",
} as const;
const syncRequest = {
  parameter: "u32",
  clock: "u32",
  /** The generation of the cache's versions; of another one than the table's they count for nothing. */
  generation: "u32",
  /** How many updates what it has may be behind. */
  bound: "u32",
  /** How many rows it wants to keep. */
  keptCount: "u32",
  /** Of rows the cache has, of rows it wants to keep and of others, in that order, each key once (CachedRows.C1). */
  keys: "u64[]",
  /** Of the rows it has. */
  versions: "u32[]",
} as const;
const pushSyncRequest: typeof pushRequest & typeof syncRequest = { ...pushRequest, ...syncRequest };
const appliedRate = { rate: "f64" } as const;
const freshRows = {
  /** Of the versions. */
  generation: "u32",
  /** The learning rate at the caller's clock; 0 for optimizers without one (CachedRows.C2). */
  rate: "f64",
  /** Of the rows that were too far behind: their positions in the list of keys. */
  indexes: "u32[]",
  /** Of the rows that were too far behind, then of those to keep. */
  versions: "u32[]",
  /** The rows that were too far behind, then all that the cache did not have. */
  rows: "f32[]",
} as const;

/** What a cache pushes. */
export type CachedRowsPush = FieldValues<typeof pushRequest>;

/** Which rows a cache asks about. */
export type RowsSync = Omit<FieldValues<typeof syncRequest>, "parameter">;

/** What it lacks. */
export type FreshRows = FieldValues<typeof freshRows>;

export const cachePush: Contract<typeof pushRequest, typeof appliedRate> = contract({
  name: "wb/cache/push",
  target: "part",
  effect: "update",
  answersAgain: true,
  answersParts: false,
  request: pushRequest,
  response: appliedRate,
});

export const cacheSync: Contract<typeof syncRequest, typeof freshRows> = contract({
  name: "wb/cache/sync",
  target: "part",
  effect: "read",
  request: syncRequest,
  response: freshRows,
});

export const cachePushSync: Contract<typeof pushSyncRequest, typeof freshRows> = contract({
  name: "wb/cache/push-sync",
  target: "part",
  effect: "update",
  answersAgain: true,
  request: pushSyncRequest,
  response: freshRows,
});
