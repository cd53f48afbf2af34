// tensor-push-rows-pull — gradients for some rows of one block, and the whole block right after it (Hetu: SDPushPull, which was not atomic).

import { type PsFunction, psFunction } from "../ps-function.ts";
import { readBlock } from "./tensor-pull.ts";

const request = { parameter: "u32", block: "u32", clock: "u32", scale: "f32", rows: "u32[]", gradients: "f32[]" } as const;
const response = { values: "f32[]" } as const;
export const tensorPushRowsPull: PsFunction<typeof request, typeof response> = psFunction({
  name: "wb/tensor/push-rows-pull",
  request,
  response,
  inPlace: true,
  handler: (context, request) => {
    const { parameter, block, clock, scale, rows, gradients } = request;
    context.parameters.tensor(parameter).pushRows({ life: context.life, clock, block, rows, gradients, scale });
    return readBlock(context, request);
  },
  again: readBlock,
});
