// tensor-pull-rows — some rows of one block of a tensor, once the reader's clock allows it (Hetu: SparsePull, which checked no row).

import { type PsFunction, psFunction } from "../ps-function.ts";
import { readTensorRows } from "./tensor-push-pull-rows.ts";

const request = { parameter: "u32", block: "u32", clock: "u32", rows: "u32[]" } as const;
const response = { values: "f32[]" } as const;
export const tensorPullRows: PsFunction<typeof request, typeof response> = psFunction({
  name: "wb/tensor/pull-rows",
  request,
  response,
  reads: true,
  inPlace: true,
  handler: readTensorRows,
});
