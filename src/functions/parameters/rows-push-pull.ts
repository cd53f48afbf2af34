// rows-push-pull — gradients for some rows of a table, then other rows of it, with nothing in between (Hetu: SSPushPull on a table).

import type { FunctionContext } from "../function-context.ts";
import { type PsFunction, psFunction } from "../ps-function.ts";

const request = {
  parameter: "u32",
  clock: "u32",
  scale: "f32",
  opens: "bool",
  pushKeys: "u64[]",
  gradients: "f32[]",
  pullKeys: "u64[]",
} as const;
const response = { values: "f32[]" } as const;
export const rowsPushPull: PsFunction<typeof request, typeof response> = psFunction({
  name: "wb/rows/push-pull",
  request,
  response,
  inPlace: true,
  handler: (context, { parameter, clock, scale, opens, pushKeys, gradients, pullKeys }) => {
    context.parameters.table(parameter).push({ life: context.life, clock, scale, opens, keys: pushKeys, gradients });
    return readRows(context, { parameter, clock, keys: pullKeys });
  },
  again: (context, { parameter, clock, pullKeys }) => readRows(context, { parameter, clock, keys: pullKeys }),
});

/** Rows of a table, now or as soon as the reader's clock allows it. */
export function readRows(
  context: FunctionContext,
  { parameter, clock, keys }: { readonly parameter: number; readonly clock: number; readonly keys: BigUint64Array },
): { readonly values: Float32Array } | Promise<{ readonly values: Float32Array }> {
  const table = context.parameters.table(parameter);
  if (table.isFresh(clock)) return table.pull(keys, context);
  const kept = table.keep(keys); // the frame is gone when the wait is over
  context.hold(kept);
  return table.whenFresh({ life: context.life, clock, bytes: keys.byteLength }, () => table.pull(kept.list, context));
}
