// describe-sums — sums as a checkpoint records them, and back: a record of the kind "sums" for each owner and width;
// the dtype of its values is the type of its elements. Shards have their keys and values, like those of tables.
//
//   wb/sums/kv/<application>/<type>/<width>     wb/sums/data/F32/<width>     names that no parameter has (SUMS_PREFIX)

import { WeighbridgeError } from "../../base/errors.ts";
import { ElementType } from "../../kernel/elements.ts";
import { SUMS_PREFIX } from "../parameter-spec.ts";
import type { SumOwner } from "../sums/sum-requests.ts";
import { type ColumnDtype, KEYS, type ParameterRecord, VALUES_COLUMN } from "./parameter-record.ts";

const TYPE_NAMES = Object.keys(ElementType) as readonly ColumnDtype[];

/** Sums of one width. */
export type SumsOfWidth = { readonly owner: SumOwner; readonly type: ElementType; readonly width: number };

/** A record without rows. */
export function describeSums({ owner, type, width }: SumsOfWidth): ParameterRecord {
  const dtype = TYPE_NAMES[type]!;
  const ownerName = owner === "data" ? owner : `kv/${owner}`;
  return {
    name: `${SUMS_PREFIX}${ownerName}/${dtype}/${width}`,
    kind: "sums",
    shape: [],
    rowCount: 0,
    width,
    columns: [KEYS, { name: VALUES_COLUMN, dtype, width, per: "row" }],
    optimizer: { kind: "sum" },
    initializer: { kind: "zeros" },
    consistency: { kind: "async", reduce: "sum", staleness: "any" },
    schedule: { kind: "constant" },
    settings: { owner },
    state: {},
  };
}

/** Whose sums a record is of. Throws CHECKPOINT_FOREIGN, naming the checkpoint. */
export function sumsOf({ name, width, columns, settings }: ParameterRecord, checkpoint: string): SumsOfWidth {
  const { owner } = settings;
  const type = ElementType[columns.find((column) => column.name === VALUES_COLUMN)?.dtype ?? "F32"];
  if (owner === "data" || (typeof owner === "number" && Number.isInteger(owner))) return { owner, type, width };
  throw new WeighbridgeError("CHECKPOINT_FOREIGN", `${checkpoint} has sums ${JSON.stringify(name)} of ${JSON.stringify(owner)}`);
}
