// tensor-push-rows — gradients for some rows of one block of a tensor, each row once (Hetu: SparsePush on a dense table).

import { type PsFunction, psFunction } from "../ps-function.ts";

const request = { parameter: "u32", block: "u32", clock: "u32", scale: "f32", rows: "u32[]", gradients: "f32[]" } as const;
const response = {} as const;
export const tensorPushRows: PsFunction<typeof request, typeof response> = psFunction({
  name: "wb/tensor/push-rows",
  request,
  response,
  inPlace: true,
  handler: ({ parameters, life }, { parameter, block, clock, scale, rows, gradients }) => {
    parameters.tensor(parameter).pushRows({ life, clock, block, rows, gradients, scale });
    return {};
  },
});
