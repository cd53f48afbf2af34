// rows — serves pushes and pulls of rows of a table. How keys and values travel is the table's business: it gives them as
// they are meant.
//
// Invariants:
//   RowHandlers.R1. Keys that are not known, rows that do not exist and memory that is not there are found out before the
//       push of a push and pull.

import { isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import { rowsPull, rowsPush, rowsPushPull } from "../../contracts/rows.ts";
import type { ServedCall } from "../../peer/function-host.ts";
import type { TableParameter } from "../parameters/table-parameter.ts";
import { type ServedFunction, serve } from "../served-function.ts";
import type { ServerContext } from "../server-context.ts";

type Values = { readonly values: ArrayBufferView };

export const ROW_HANDLERS: readonly ServedFunction[] = [
  serve(rowsPush, {
    inPlace: true,
    handler: ({ parameters, ownership, life }, { parameter, clock, scale, pushNumber, keys, gradients }, call) => {
      const table = parameters.tables.get(parameter) ?? parameters.table(parameter);
      const list = table.keysIn(keys, life, call);
      const rows = table.gradientsIn(gradients, list.length, call);
      table.push({ life, clock, scale, pushNumber, keys: list, gradients: rows, owners: ownership });
      return {};
    },
  }),
  serve(rowsPull, {
    inPlace: true,
    handler: (context, { parameter, clock, keys }, call) => {
      const { parameters, ownership, life } = context;
      const table = parameters.tables.get(parameter) ?? parameters.table(parameter);
      const list = table.keysIn(keys, life, call);
      if (!table.isFresh(clock)) return readRows(context, table, { clock, keys: list }, call);
      // Who owns them is found out with them.
      return table.pull(list, { out: table.roomFor(list, call), reader: context, owners: ownership });
    },
  }),
  serve(rowsPushPull, {
    inPlace: true,
    handler: (context, { parameter, clock, scale, pushNumber, pushKeys, gradients, pullKeys }, call) => {
      const { parameters, life, ownership: owners } = context;
      const table = parameters.table(parameter);
      const keys = table.keysIn(pushKeys, life, call);
      const pulled = table.keysIn(pullKeys, life, call);
      const rows = table.gradientsIn(gradients, keys.length, call);
      const push = (): void => table.push({ life, clock, scale, pushNumber, keys, owners, gradients: rows });
      return readRows(context, table, { clock, keys: pulled }, call, push);
    },
    again: (context, { parameter, clock, pullKeys }, call) => {
      const table = context.parameters.table(parameter);
      return readRows(context, table, { clock, keys: knownAgain(() => table.keysIn(pullKeys, context.life, call)) }, call);
    },
  }),
];

/**
 * Rows of a table, now or as soon as the reader's clock allows it; `push` comes before them, and is not done if they
 * cannot be read (R1).
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
  if (table.isFresh(clock)) {
    push?.();
    return table.pull(keys, reading);
  }
  const kept = table.keep(keys); // the frame is gone when the wait is over
  call.hold(kept);
  push?.();
  return table.whenFresh({ life: context.life, clock, bytes: keys.byteLength }, () => table.pull(kept.list, reading));
}

/**
 * Keys of an update that was applied before. Who is told that they are not known would send it once more: ANSWER_LOST
 * says that it counts.
 */
function knownAgain(read: () => BigUint64Array): BigUint64Array {
  try {
    return read();
  } catch (thrown) {
    if (!isWeighbridgeError(thrown, "UNKNOWN_KEY_LIST")) throw thrown;
    throw new WeighbridgeError("ANSWER_LOST", "rows were pushed before, and the keys of those to be read are not known any more", {
      cause: thrown,
    });
  }
}
