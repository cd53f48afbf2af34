// cached-rows — serves what a cache of rows with bounded staleness asks of a table with versions (contracts/cached-rows.ts).

import { cachePush, cachePushSync, cacheSync } from "../../contracts/cached-rows.ts";
import { type ServedFunction, serve } from "../served-function.ts";

export const CACHED_ROW_HANDLERS: readonly ServedFunction[] = [
  serve(cachePush, {
    inPlace: true,
    handler: ({ parameters, life }, { parameter, clock, scale, pushNumber, pushKeys, gradients, updates }) => {
      const table = parameters.table(parameter);
      table.push({ life, clock, scale, pushNumber, keys: pushKeys, gradients, updates });
      return { rate: table.rateAt(clock) }; // CachedRows.C2
    },
    again: ({ parameters }, { parameter, clock }) => ({ rate: parameters.table(parameter).rateAt(clock) }),
  }),
  serve(cacheSync, {
    inPlace: true,
    handler: ({ parameters, worker }, { parameter, ...sync }, call) => parameters.table(parameter).sync(sync, worker, call),
  }),
  serve(cachePushSync, {
    inPlace: true,
    handler: ({ parameters, life, worker }, { parameter, clock, scale, pushNumber, pushKeys, gradients, updates, ...sync }, call) => {
      const push = { life, clock, scale, pushNumber, keys: pushKeys, gradients, updates };
      return parameters.table(parameter).pushSync(push, { clock, ...sync }, worker, call);
    },
    again: ({ parameters, worker }, { parameter, clock, generation, bound, keptCount, keys, versions }, call) =>
      parameters.table(parameter).sync({ clock, generation, bound, keptCount, keys, versions }, worker, call),
  }),
];
