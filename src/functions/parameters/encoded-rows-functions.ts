// encoded-rows-functions — pushes and pulls of rows of a table whose link carries less: as rows-push and rows-pull, with keys ascending in a
// section of their own (perhaps only its name) and values as the parameter's link encodes them (spec/codecs.md).

import type { FunctionContext } from "../function-context.ts";
import { type PsFunction, psFunction } from "../ps-function.ts";

type EncodedPull = { readonly parameter: number; readonly clock: number; readonly keys: Uint8Array };
type EncodedValues = { readonly values: Uint8Array };

const pushFields = { parameter: "u32", clock: "u32", scale: "f32", opens: "bool", keys: "u8[]", gradients: "u8[]" } as const;
const pullFields = { parameter: "u32", clock: "u32", keys: "u8[]" } as const;
const nothing = {} as const;
const encodedValues = { values: "u8[]" } as const;

export const rowsPushEncoded: PsFunction<typeof pushFields, typeof nothing> = psFunction({
  name: "wb/rows/push-encoded",
  request: pushFields,
  response: nothing,
  inPlace: true,
  handler: ({ parameters, life }, { parameter, clock, scale, opens, keys, gradients }) => {
    const table = parameters.table(parameter);
    const { width } = table.spec;
    const named = table.link.keys(keys, life, width);
    try {
      table.link.decoded(gradients, { rowCount: named.list.length, width }, (values) =>
        table.push({ life, clock, scale, opens, keys: named.list, gradients: values }),
      );
    } finally {
      named.release();
    }
    return {};
  },
});

export const rowsPullEncoded: PsFunction<typeof pullFields, typeof encodedValues> = psFunction({
  name: "wb/rows/pull-encoded",
  request: pullFields,
  response: encodedValues,
  reads: true,
  inPlace: true,
  handler: readRows,
});

/** Rows, now or as soon as the reader's clock allows it. */
function readRows(context: FunctionContext, { parameter, clock, keys }: EncodedPull): EncodedValues | Promise<EncodedValues> {
  const { life } = context;
  const table = context.parameters.table(parameter);
  const { width } = table.spec;
  const named = table.link.keys(keys, life, width);
  try {
    const shape = { rowCount: named.list.length, width };
    const source = table.roomFor(named.list, context);
    const room = table.link.isPlainPull ? 0 : table.link.roomFor(shape, context);
    const read = (list: BigUint64Array): EncodedValues => {
      const { values } = table.pull(list, { out: source, worker: context.worker });
      return table.link.isPlainPull ? { values: bytesOf(values) } : table.link.encoded(values, shape, room);
    };
    if (table.isFresh(clock)) return read(named.list);
    const kept = table.keep(named.list); // the frame is gone when the wait is over
    context.hold(kept);
    return table.whenFresh({ life, clock, bytes: kept.list.byteLength }, () => read(kept.list));
  } finally {
    named.release();
  }
}

function bytesOf({ buffer, byteOffset, byteLength }: Float32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
