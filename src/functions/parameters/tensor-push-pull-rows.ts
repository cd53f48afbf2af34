// tensor-push-pull-rows — gradients for some rows of one block, and rows of it right after that (Hetu: SSPushPull, which was not atomic).
// Rows that do not exist and memory that is not there are found out before the push.

import type { FunctionContext } from "../function-context.ts";
import { type PsFunction, psFunction } from "../ps-function.ts";

const request = {
  parameter: "u32",
  block: "u32",
  clock: "u32",
  scale: "f32",
  pushRows: "u32[]",
  gradients: "f32[]",
  pullRows: "u32[]",
} as const;
const response = { values: "f32[]" } as const;
export const tensorPushPullRows: PsFunction<typeof request, typeof response> = psFunction({
  name: "wb/tensor/push-pull-rows",
  request,
  response,
  inPlace: true,
  handler: (context, { parameter, block, clock, scale, pushRows, gradients, pullRows }) => {
    const push = (): void =>
      context.parameters.tensor(parameter).pushRows({ life: context.life, clock, block, rows: pushRows, gradients, scale });
    return readTensorRows(context, { parameter, block, clock, rows: pullRows }, push);
  },
  again: (context, { parameter, block, clock, pullRows }) => readTensorRows(context, { parameter, block, clock, rows: pullRows }),
});

/** Rows of a block, now or as soon as the reader's clock allows it; `push` comes before them, and is not done if they cannot be read. */
export function readTensorRows(
  context: FunctionContext,
  {
    parameter,
    block,
    clock,
    rows,
  }: { readonly parameter: number; readonly block: number; readonly clock: number; readonly rows: Uint32Array },
  push?: () => void,
): { readonly values: Float32Array } | Promise<{ readonly values: Float32Array }> {
  const tensor = context.parameters.tensor(parameter);
  const reading = { out: tensor.roomFor(block, rows, context), worker: context.worker };
  if (tensor.isFresh(clock)) {
    push?.();
    return tensor.pullRows(block, rows, reading);
  }
  const kept = tensor.keep(rows); // the frame is gone when the wait is over
  context.hold(kept);
  push?.();
  return tensor.whenFresh({ life: context.life, clock, bytes: rows.byteLength }, () => tensor.pullRows(block, kept.list, reading));
}
