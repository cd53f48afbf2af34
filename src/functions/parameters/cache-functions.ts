// cache-functions — what a cache of rows with bounded staleness asks of a table with versions: updates that count for several, and only the
// rows that are too far behind (Hetu: PushEmbedding, SyncEmbedding, PushSyncEmbedding, the last of which was not atomic).
//
// Invariants:
//   C1. A row that the cache does not have costs what a plain pull of it costs, and 4 bytes of version if it is to be kept; one that it has
//       and that is fresh enough costs its key and version.
//   C2. Every answer says at which learning rate updates of the asker's clock are applied, so that a cache applies its own to its copies
//       exactly as the server does.

import { type PsFunction, psFunction } from "../ps-function.ts";

const pushFields = {
  parameter: "u32",
  clock: "u32",
  scale: "f32",
  opens: "bool",
  pushKeys: "u64[]",
  gradients: "f32[]",
  /** How many updates each gradient sums up; none at all: one each. */
  updates: "u32[]",
} as const;
const syncFields = {
  parameter: "u32",
  clock: "u32",
  generation: "u32",
  bound: "u32",
  keptCount: "u32",
  /** Of rows the cache has, of rows it wants to keep and of others, in that order (C1). */
  keys: "u64[]",
  /** Of the rows it has. */
  versions: "u32[]",
} as const;
const pushSyncFields: typeof pushFields & typeof syncFields = { ...pushFields, ...syncFields };
const appliedRate = { rate: "f64" } as const;
const freshRows = { generation: "u32", rate: "f64", indexes: "u32[]", versions: "u32[]", rows: "f32[]" } as const;

export const cachePush: PsFunction<typeof pushFields, typeof appliedRate> = psFunction({
  name: "wb/cache/push",
  request: pushFields,
  response: appliedRate,
  inPlace: true,
  handler: ({ parameters, life }, { parameter, clock, scale, opens, pushKeys, gradients, updates }) => {
    const table = parameters.table(parameter);
    table.push({ life, clock, scale, opens, keys: pushKeys, gradients, updates });
    return { rate: table.rateAt(clock) }; // C2
  },
  again: ({ parameters }, { parameter, clock }) => ({ rate: parameters.table(parameter).rateAt(clock) }),
});

export const cacheSync: PsFunction<typeof syncFields, typeof freshRows> = psFunction({
  name: "wb/cache/sync",
  request: syncFields,
  response: freshRows,
  reads: true,
  inPlace: true,
  handler: (context, { parameter, ...sync }) => context.parameters.table(parameter).sync(sync, context),
});

export const cachePushSync: PsFunction<typeof pushSyncFields, typeof freshRows> = psFunction({
  name: "wb/cache/push-sync",
  request: pushSyncFields,
  response: freshRows,
  inPlace: true,
  handler: (context, { parameter, clock, scale, opens, pushKeys, gradients, updates, ...sync }) => {
    const push = { life: context.life, clock, scale, opens, keys: pushKeys, gradients, updates };
    return context.parameters.table(parameter).pushSync(push, { clock, ...sync }, context);
  },
  again: (context, { parameter, clock, generation, bound, keptCount, keys, versions }) =>
    context.parameters.table(parameter).sync({ clock, generation, bound, keptCount, keys, versions }, context),
});
