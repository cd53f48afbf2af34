// cache-functions — what a cache of rows with bounded staleness asks of a table with versions: updates that count for several, and only the
// rows that are too far behind (Hetu: PushEmbedding, SyncEmbedding, PushSyncEmbedding, the last of which was not atomic).

import { type PsFunction, psFunction } from "../ps-function.ts";

const pushFields = {
  parameter: "u32",
  clock: "u32",
  scale: "f32",
  opens: "bool",
  pushKeys: "u64[]",
  gradients: "f32[]",
  updates: "u32[]",
} as const;
const syncFields = { parameter: "u32", keys: "u64[]", versions: "u32[]", bound: "u32" } as const;
const pushSyncFields = {
  parameter: "u32",
  clock: "u32",
  scale: "f32",
  opens: "bool",
  pushKeys: "u64[]",
  gradients: "f32[]",
  updates: "u32[]",
  keys: "u64[]",
  versions: "u32[]",
  bound: "u32",
} as const;
const nothing = {} as const;
/** Positions in the list of keys, and of those rows the versions and values. */
const freshRows = { indexes: "u32[]", versions: "u32[]", rows: "f32[]" } as const;

export const cachePush: PsFunction<typeof pushFields, typeof nothing> = psFunction({
  name: "wb/cache/push",
  request: pushFields,
  response: nothing,
  inPlace: true,
  handler: ({ parameters, life }, { parameter, clock, scale, opens, pushKeys, gradients, updates }) => {
    parameters.table(parameter).push({ life, clock, scale, opens, keys: pushKeys, gradients, updates });
    return {};
  },
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
    const table = context.parameters.table(parameter);
    table.push({ life: context.life, clock, scale, opens, keys: pushKeys, gradients, updates });
    return table.sync(sync, context);
  },
  again: (context, { parameter, keys, versions, bound }) => context.parameters.table(parameter).sync({ keys, versions, bound }, context),
});
