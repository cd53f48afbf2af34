// tensor-push-pull — a gradient for one block, and the block's values right after it, with nothing in between (Hetu: DDPushPull). Of a
// parameter with sync updates it is the values before the gradient: that counts once everybody's has come.

import { type PsFunction, psFunction } from "../ps-function.ts";
import { readBlock } from "./tensor-pull.ts";

const request = { parameter: "u32", block: "u32", clock: "u32", scale: "f32", gradients: "f32[]" } as const;
const response = { values: "f32[]" } as const;
export const tensorPushPull: PsFunction<typeof request, typeof response> = psFunction({
  name: "wb/tensor/push-pull",
  request,
  response,
  inPlace: true,
  handler: (context, request) => {
    const { parameter, block, clock, scale, gradients } = request;
    context.parameters.tensor(parameter).push({ life: context.life, clock, block, gradients, scale });
    return readBlock(context, request);
  },
  again: readBlock,
});
