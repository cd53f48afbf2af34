// rows-push — gradients for rows of a table, each key once, applied by the parameter's optimizer; missing rows are made first
// (Hetu: SparsePush). `opens` is set in the first frame of a caller's push: a push counts as one step however it is cut.

import { type PsFunction, psFunction } from "../ps-function.ts";

const request = { parameter: "u32", clock: "u32", scale: "f32", opens: "bool", keys: "u64[]", gradients: "f32[]" } as const;
const response = {} as const;
export const rowsPush: PsFunction<typeof request, typeof response> = psFunction({
  name: "wb/rows/push",
  request,
  response,
  inPlace: true,
  handler: ({ parameters, life }, { parameter, clock, scale, opens, keys, gradients }) => {
    parameters.table(parameter).push({ life, clock, scale, opens, keys, gradients });
    return {};
  },
});
