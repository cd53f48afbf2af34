// rows — serves pushes and pulls of rows of a table, plain ones and those whose link carries less (spec/codecs.md).
//
// Invariants:
//   RowHandlers.R1. Rows that do not exist and memory that is not there are found out before the push of a push and pull.

import { rowsPull, rowsPullEncoded, rowsPush, rowsPushEncoded, rowsPushPull } from "../../contracts/rows.ts";
import type { ServedCall } from "../../peer/function-host.ts";
import { type ServedFunction, serve } from "../served-function.ts";
import type { ServerContext } from "../server-context.ts";

type Pull = { readonly parameter: number; readonly clock: number; readonly keys: BigUint64Array };
type EncodedPull = { readonly parameter: number; readonly clock: number; readonly keys: Uint8Array };
type Values = { readonly values: Float32Array };
type EncodedValues = { readonly values: Uint8Array };

export const ROW_HANDLERS: readonly ServedFunction[] = [
  serve(rowsPush, {
    inPlace: true,
    handler: ({ parameters, ownership, life }, { parameter, clock, scale, pushNumber, keys, gradients }) => {
      const table = parameters.tables.get(parameter) ?? parameters.table(parameter);
      table.push({ life, clock, scale, pushNumber, keys, gradients, owners: ownership });
      return {};
    },
  }),
  serve(rowsPull, { inPlace: true, handler: readOwnRows }),
  serve(rowsPushPull, {
    inPlace: true,
    handler: (context, { parameter, clock, scale, pushNumber, pushKeys, gradients, pullKeys }, call) => {
      const { parameters, life, ownership: owners } = context;
      const push = (): void => parameters.table(parameter).push({ life, clock, scale, pushNumber, keys: pushKeys, owners, gradients });
      return readRows(context, { parameter, clock, keys: pullKeys }, call, push);
    },
    again: (context, { parameter, clock, pullKeys }, call) => readRows(context, { parameter, clock, keys: pullKeys }, call),
  }),
  serve(rowsPushEncoded, {
    inPlace: true,
    handler: ({ parameters, ownership, life }, { parameter, clock, scale, pushNumber, keys, gradients }) => {
      const table = parameters.table(parameter);
      const { width } = table.spec;
      const named = table.link.keys(keys, life, width);
      try {
        table.link.decoded(gradients, { rowCount: named.list.length, width }, (values) =>
          table.push({ life, clock, scale, pushNumber, keys: named.list, owners: ownership, gradients: values }),
        );
      } finally {
        named.release();
      }
      return {};
    },
  }),
  serve(rowsPullEncoded, { inPlace: true, handler: readEncodedRows }),
];

/** Rows of a table, now or as soon as the reader's clock allows it. Who owns them is found out with them, or before a wait. */
function readOwnRows(context: ServerContext, request: Pull, call: ServedCall): Values | Promise<Values> {
  const { parameter, clock, keys } = request;
  const { parameters, ownership } = context;
  const table = parameters.tables.get(parameter) ?? parameters.table(parameter);
  if (!table.isFresh(clock)) return readRows(context, request, call);
  return table.pull(keys, { out: table.roomFor(keys, call), reader: context, owners: ownership });
}

/** As `readOwnRows`; `push` comes before the rows, and is not done if they cannot be read (R1). */
function readRows(context: ServerContext, { parameter, clock, keys }: Pull, call: ServedCall, push?: () => void): Values | Promise<Values> {
  const table = context.parameters.table(parameter);
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

function readEncodedRows(
  context: ServerContext,
  { parameter, clock, keys }: EncodedPull,
  call: ServedCall,
): EncodedValues | Promise<EncodedValues> {
  const { life, ownership } = context;
  const table = context.parameters.table(parameter);
  const { width } = table.spec;
  const named = table.link.keys(keys, life, width);
  try {
    const isFresh = table.isFresh(clock);
    if (!isFresh) ownership.checkKeys(named.list);
    const shape = { rowCount: named.list.length, width };
    const source = table.roomFor(named.list, call);
    const room = table.link.isPlainPull ? 0 : table.link.roomFor(shape, call);
    const read = (list: BigUint64Array): EncodedValues => {
      const { values } = table.pull(list, { out: source, reader: context, owners: isFresh ? ownership : undefined });
      return table.link.isPlainPull ? { values: bytesOf(values) } : table.link.encoded(values, shape, room);
    };
    if (isFresh) return read(named.list);
    const kept = table.keep(named.list); // the frame is gone when the wait is over
    call.hold(kept);
    return table.whenFresh({ life, clock, bytes: kept.list.byteLength }, () => read(kept.list));
  } finally {
    named.release();
  }
}

function bytesOf({ buffer, byteOffset, byteLength }: Float32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
