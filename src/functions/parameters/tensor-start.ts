// tensor-start — the values that one block of a tensor begins with, in place of those its initializer would give it. The first to come counts; after
// that, and once anybody has pushed to the block, nothing is changed: whoever starts anew, or late, does no harm.

import { type PsFunction, psFunction } from "../ps-function.ts";

const request = { parameter: "u32", block: "u32", values: "f32[]" } as const;
const response = { isTaken: "bool" } as const;
export const tensorStart: PsFunction<typeof request, typeof response> = psFunction({
  name: "wb/tensor/start",
  request,
  response,
  inPlace: true,
  handler: ({ parameters }, { parameter, block, values }) => ({ isTaken: parameters.tensor(parameter).start(block, values) }),
});
