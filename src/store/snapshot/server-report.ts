// server-report — what a server says of the shard that it has written: the records that the manifest is made of.

import { type Check, count, list, object } from "../../wire/json-body.ts";
import { type ServerRecord, serverRecordShape } from "./checkpoint-manifest.ts";
import { type ParameterRecord, parameterShape } from "./parameter-record.ts";

/** The parameters are as this server has them: `rowCount` of a table is its own. */
export type ServerReport = {
  readonly record: ServerRecord;
  readonly parameters: readonly ParameterRecord[];
  readonly workers: readonly { readonly rank: number; readonly clock: number }[];
};

export const serverReportShape: Check<ServerReport> = object({
  record: serverRecordShape,
  parameters: list(parameterShape),
  workers: list(object({ rank: count, clock: count })),
});
