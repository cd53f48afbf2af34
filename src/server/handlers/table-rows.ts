// table-rows — serves what process caches ask of tables (contracts/tables.ts): updates of which only what changes
// travels, and rows with the clock to which they are fresh. Who has subscribed to rows is in row-subscriptions.ts.
//
// Invariants:
//   TableRowHandlers.H1. An update that makes no sense, or names an element that a row does not have, changes nothing.
//   TableRowHandlers.H2. Rows and updates travel as they are, also of a table with a link: what changes of a row is
//       named here, and a packed link changes no bit.
//   TableRowHandlers.H3. The clock of an answer is that of the moment at which its rows were read.

import { badRequest, type WeighbridgeError } from "../../base/errors.ts";
import { tableRead, tableUpdate } from "../../contracts/tables.ts";
import { WORD_BYTES } from "../../kernel/elements.ts";
import type { ServedCall } from "../../peer/function-host.ts";
import type { Ownership } from "../ownership.ts";
import { roomFor } from "../parameters/call-memory.ts";
import type { TableParameter } from "../parameters/table-parameter.ts";
import { readWhenFresh } from "../parameters/waiting-read.ts";
import { type ServedFunction, type ServerContext, serve } from "../server-context.ts";
import { RowSubscriptions } from "./row-subscriptions.ts";

type ChangedElements = {
  readonly keys: BigUint64Array;
  readonly counts: Uint32Array;
  readonly columns: Uint32Array;
  readonly updates: Float32Array;
};
type RowsRead = { readonly clock: number; readonly applied: number; readonly order: number; readonly values: Float32Array };

export const TABLE_ROW_HANDLERS: readonly ServedFunction[] = [
  serve(tableUpdate, {
    inPlace: true,
    handler: (context, { parameter, clock, pushNumber, ...changed }, call) => {
      const { parameters, ownership, holder } = context;
      const table = parameters.tables.get(parameter) ?? parameters.table(parameter);
      const gradients = spread(table, changed, call);
      table.push({ holder, clock, scale: 1, pushNumber, keys: changed.keys, gradients, owners: ownership });
      table.taken.note(holder, call.stamp);
      return {};
    },
  }),
  serve(tableRead, {
    inPlace: true,
    handler: (context, { parameter, clock, subscribes, keys }, call) => {
      const table = context.parameters.tables.get(parameter) ?? context.parameters.table(parameter);
      if (subscribes) RowSubscriptions.on(context).add(table, keys, context);
      return readRows(context, table, { clock, keys }, call);
    },
  }),
];

/** Whole rows of updates, in memory that `call` holds. Throws BAD_REQUEST, ARENA_FULL. */
function spread(table: TableParameter, { keys, counts, columns, updates }: ChangedElements, call: ServedCall): Float32Array {
  const { words, host, spec } = table;
  const { arena } = host;
  const scale = table.elementWords;
  if (counts.length === 0 && columns.length === 0) return updates; // whole rows; `push` looks at the length
  if (counts.length !== keys.length || updates.length !== columns.length * scale)
    throw badRequest(`what changes of rows of ${spec.name} has columns of different lengths`);
  const address = roomFor(arena, keys.length * words * WORD_BYTES, call);
  host.kernels.zero(address, keys.length * words * WORD_BYTES);
  const from = new Uint32Array(updates.buffer, updates.byteOffset, updates.length); // bit by bit
  const to = arena.words;
  const elements = words / scale;
  let next = 0;
  for (let row = 0, start = address >>> 2; row < keys.length; row++, start += words) {
    const end = next + (counts[row] as number);
    for (; next < end; next++) {
      const column = columns[next] as number;
      if (!(column < elements)) throw noElement(table, column);
      for (let word = 0; word < scale; word++) to[start + column * scale + word] = from[next * scale + word] as number;
    }
  }
  if (next !== columns.length) throw noElement(table, columns.length);
  return arena.floats.subarray(address >>> 2, (address >>> 2) + keys.length * words) as Float32Array;
}

function noElement({ spec }: TableParameter, column: number): WeighbridgeError {
  return badRequest(`rows of ${spec.name} have no element ${column}, or the counts of their changes do not add up`);
}

/** TableRowHandlers.H3 */
function readRows(
  context: ServerContext,
  table: TableParameter,
  { clock, keys }: { readonly clock: number; readonly keys: BigUint64Array },
  call: ServedCall,
): RowsRead | Promise<RowsRead> {
  const { ownership, holder, parameters, worker } = context;
  const out = table.roomFor(keys, call);
  const { pacer } = parameters;
  const subscriptions = RowSubscriptions.on(context);
  const read = (list: BigUint64Array, owners?: Ownership): RowsRead => {
    const values = table.pullPlain(list, { out, reader: { worker }, owners });
    return { clock: pacer.clockMin, applied: table.taken.of(holder), order: subscriptions.orderOf(table), values };
  };
  if (table.isFresh(clock, holder)) return read(keys, ownership);
  ownership.checkKeys(keys);
  // Where a part has left meanwhile, the answer is refused for its epoch (FunctionHost.H6).
  return readWhenFresh(context, table, { clock, list: keys, read }, call);
}
