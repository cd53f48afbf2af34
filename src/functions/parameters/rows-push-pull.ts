// rows-push-pull — gradients for some rows of a table, then other rows of it, with nothing in between (Hetu: SSPushPull on a table). Rows
// that do not exist and memory that is not there are found out before the push.

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
    const push = (): void =>
      context.parameters.table(parameter).push({ life: context.life, clock, scale, opens, keys: pushKeys, gradients });
    return readRows(context, { parameter, clock, keys: pullKeys }, push);
  },
  again: (context, { parameter, clock, pullKeys }) => readRows(context, { parameter, clock, keys: pullKeys }),
});

/** Rows of a table, now or as soon as the reader's clock allows it; `push` comes before them, and is not done if they cannot be read. */
export function readRows(
  context: FunctionContext,
  { parameter, clock, keys }: { readonly parameter: number; readonly clock: number; readonly keys: BigUint64Array },
  push?: () => void,
): { readonly values: Float32Array } | Promise<{ readonly values: Float32Array }> {
  const table = context.parameters.table(parameter);
  const reading = { out: table.roomFor(keys, context), worker: context.worker };
  if (table.isFresh(clock)) {
    push?.();
    return table.pull(keys, reading);
  }
  const kept = table.keep(keys); // the frame is gone when the wait is over
  context.hold(kept);
  push?.();
  return table.whenFresh({ life: context.life, clock, bytes: keys.byteLength }, () => table.pull(kept.list, reading));
}
