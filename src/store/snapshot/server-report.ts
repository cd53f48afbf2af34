// server-report — what a server says of the shard that it has written: the records that the manifest is made of.

import type { ServerRecord } from "./checkpoint-manifest.ts";
import type { ParameterRecord } from "./parameter-record.ts";

/** The parameters are as this server has them: `rowCount` of a table is its own. */
export type ServerReport = {
  readonly record: ServerRecord;
  readonly parameters: readonly ParameterRecord[];
  readonly workers: readonly { readonly rank: number; readonly clock: number }[];
};
