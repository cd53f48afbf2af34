// rows — serves pushes and pulls of rows of a table. The table decodes and encodes keys and values; waiting-read.ts
// says what holds for a push and pull (WaitingRead.R1, WaitingRead.R2).

import { rowsPull, rowsPush, rowsPushPull } from "../../contracts/rows.ts";
import type { ServedCall } from "../../peer/function-host.ts";
import type { TableParameter } from "../parameters/table-parameter.ts";
import { answerOfApplied, readWhenFresh } from "../parameters/waiting-read.ts";
import { type ServedFunction, type ServerContext, serve } from "../server-context.ts";

type Values = { readonly values: ArrayBufferView };

export const ROW_HANDLERS: readonly ServedFunction[] = [
  serve(rowsPush, {
    inPlace: true,
    handler: ({ parameters, ownership, holder }, { parameter, clock, scale, pushNumber, keys, gradients }, call) => {
      const table = parameters.tables.get(parameter) ?? parameters.table(parameter);
      const list = table.keysIn(keys, holder, call);
      const rows = table.gradientsIn(gradients, list.length, call);
      table.push({ holder, clock, scale, pushNumber, keys: list, gradients: rows, owners: ownership });
      return {};
    },
  }),
  serve(rowsPull, {
    inPlace: true,
    handler: (context, { parameter, clock, keys }, call) => {
      const { parameters, ownership, holder } = context;
      const table = parameters.tables.get(parameter) ?? parameters.table(parameter);
      const list = table.keysIn(keys, holder, call);
      if (!table.isFresh(clock, holder)) return readRows(context, table, { clock, keys: list }, call);
      // The owners are checked with the lookup.
      return table.pull(list, { out: table.roomFor(list, call), reader: context, owners: ownership });
    },
  }),
  serve(rowsPushPull, {
    inPlace: true,
    handler: (context, { parameter, clock, scale, pushNumber, pushKeys, gradients, pullKeys }, call) => {
      const { parameters, holder, ownership: owners } = context;
      const table = parameters.table(parameter);
      const keys = table.keysIn(pushKeys, holder, call);
      const pulled = table.keysIn(pullKeys, holder, call);
      const rows = table.gradientsIn(gradients, keys.length, call);
      const push = (): void => table.push({ holder, clock, scale, pushNumber, keys, owners, gradients: rows });
      return readRows(context, table, { clock, keys: pulled }, call, push);
    },
    again: (context, { parameter, clock, pullKeys }, call) => {
      const { parameters, holder } = context;
      return answerOfApplied(() => {
        const table = parameters.table(parameter);
        return readRows(context, table, { clock, keys: table.keysIn(pullKeys, holder, call) }, call);
      });
    },
  }),
];

/**
 * Rows of a table, once the reader's clock allows it. `push` comes first, and is not applied if they cannot be read.
 */
function readRows(
  context: ServerContext,
  table: TableParameter,
  { clock, keys }: { readonly clock: number; readonly keys: BigUint64Array },
  call: ServedCall,
  push?: () => void,
): Values | Promise<Values> {
  context.ownership.checkKeys(keys);
  const reading = { out: table.roomFor(keys, call), reader: context };
  const read = (list: BigUint64Array): Values => table.pull(list, reading);
  return readWhenFresh(context, table, { clock, list: keys, read }, call, push);
}
