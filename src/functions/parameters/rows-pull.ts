// rows-pull — rows of a table, once the reader's clock allows it; a row that nobody has pushed has its initial values (Hetu: SparsePull).

import { type PsFunction, psFunction } from "../ps-function.ts";
import { readRows } from "./rows-push-pull.ts";

const request = { parameter: "u32", clock: "u32", keys: "u64[]" } as const;
const response = { values: "f32[]" } as const;
export const rowsPull: PsFunction<typeof request, typeof response> = psFunction({
  name: "wb/rows/pull",
  request,
  response,
  reads: true,
  inPlace: true,
  handler: readRows,
});
