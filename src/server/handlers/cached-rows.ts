// cached-rows — serves caches of rows with bounded staleness, from a table with versions (contracts/cached-rows.ts).

import { cachePush, cachePushSync, cacheSync, type FreshRows, type RowsSync } from "../../contracts/cached-rows.ts";
import type { ServedCall } from "../../peer/function-host.ts";
import type { RowsPush } from "../parameters/table-parameter.ts";
import { type ServedFunction, type ServerContext, serve } from "../server-context.ts";

export const CACHED_ROW_HANDLERS: readonly ServedFunction[] = [
  serve(cachePush, {
    inPlace: true,
    handler: ({ parameters, holder, ownership }, { parameter, clock, scale, pushNumber, pushKeys, gradients, updates }) => {
      const table = parameters.table(parameter);
      table.push({ holder, clock, scale, pushNumber, keys: pushKeys, owners: ownership, gradients, updates });
      return { rate: table.rateAt(clock) }; // CachedRows.C2
    },
    again: ({ parameters }, { parameter, clock }) => ({ rate: parameters.table(parameter).rateAt(clock) }),
  }),
  serve(cacheSync, { inPlace: true, handler: (context, request, call) => readFreshRows(context, request, call) }),
  serve(cachePushSync, {
    inPlace: true,
    handler: (context, { scale, pushNumber, pushKeys, gradients, updates, ...request }, call) => {
      const { holder, ownership: owners } = context;
      const push = { holder, clock: request.clock, scale, pushNumber, keys: pushKeys, owners, gradients, updates };
      return readFreshRows(context, request, call, push);
    },
    again: (context, request, call) => readFreshRows(context, request, call),
  }),
];

/** The rows that a cache lacks. `push` comes first, and is not applied if they cannot be read. */
function readFreshRows(
  { parameters, ownership, worker }: ServerContext,
  { parameter, clock, generation, bound, keptCount, keys, versions }: RowsSync & { readonly parameter: number },
  call: ServedCall,
  push?: RowsPush,
): FreshRows {
  const sync = { clock, generation, bound, keptCount, keys, versions };
  ownership.checkKeys(keys);
  const table = parameters.table(parameter);
  return push === undefined ? table.sync(sync, worker, call) : table.pushSync(push, sync, worker, call);
}
