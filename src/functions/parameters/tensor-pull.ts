// tensor-pull — the values of one block of a tensor, once the reader's clock allows it (Hetu: DensePull). They leave from where they lie.

import type { FunctionContext } from "../function-context.ts";
import { type PsFunction, psFunction } from "../ps-function.ts";

const request = { parameter: "u32", block: "u32", clock: "u32" } as const;
const response = { values: "f32[]" } as const;
export const tensorPull: PsFunction<typeof request, typeof response> = psFunction({
  name: "wb/tensor/pull",
  request,
  response,
  reads: true,
  inPlace: true,
  handler: readBlock,
});

/** Holds the block until it has left. */
export function readBlock(
  context: FunctionContext,
  { parameter, block, clock }: { readonly parameter: number; readonly block: number; readonly clock: number },
): { readonly values: Float32Array } | Promise<{ readonly values: Float32Array }> {
  const tensor = context.parameters.tensor(parameter);
  return tensor.whenFresh({ life: context.life, clock, bytes: 0 }, () => {
    tensor.store.notePull(block, context.worker);
    const held = tensor.store.hold(block);
    context.hold(held);
    return { values: held.values as Float32Array };
  });
}
