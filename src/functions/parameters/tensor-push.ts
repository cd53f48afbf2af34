// tensor-push — a gradient for one block of a tensor, applied by the parameter's optimizer (Hetu: DensePush, which never applied one).

import { type PsFunction, psFunction } from "../ps-function.ts";

const request = { parameter: "u32", block: "u32", clock: "u32", scale: "f32", gradients: "f32[]" } as const;
const response = {} as const;
export const tensorPush: PsFunction<typeof request, typeof response> = psFunction({
  name: "wb/tensor/push",
  request,
  response,
  inPlace: true,
  handler: ({ parameters, life }, { parameter, block, clock, scale, gradients }) => {
    parameters.tensor(parameter).push({ life, clock, block, gradients, scale });
    return {};
  },
});
