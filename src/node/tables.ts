// The door `weighbridge/tables`: Petuum's words. Tables of rows with a cache for the whole process, clocks, and reads
// that are as fresh as asked for.

export type { WaitOptions } from "../base/deferred.ts";
export { type ErrorCode, isWeighbridgeError, type UpdateOutcome, type UpdatePart, WeighbridgeError } from "../base/errors.ts";
export { RowAccessor } from "../faces/tables/row-accessor.ts";
export { type CustomRowOptions, customRow } from "../faces/tables/rows/custom-row.ts";
export { DenseAccessor, type DenseRowType, denseRow, multiplicativeRow } from "../faces/tables/rows/dense-row.ts";
export {
  SparseAccessor,
  type SparseColumns,
  type SparseFeature,
  SparseFeatureAccessor,
  type SparseFeatureRowType,
  type SparseRowType,
  sortedRow,
  sparseFeatureRow,
  sparseRow,
} from "../faces/tables/rows/sparse-row.ts";
export type { Table } from "../faces/tables/table.ts";
export { DenseUpdateBatch, UpdateBatch } from "../faces/tables/table.ts";
export type { ConsistencyModel, TableConfig, TableGroupConfig, TableHost, UpdateSortPolicy } from "../faces/tables/table-config.ts";
export type { TableGroup as SessionTableGroup } from "../faces/tables/table-group.ts";
export type { AccessorOfRow, TableRowType } from "../faces/tables/table-row-type.ts";
export type { NumberRowType, TableThread } from "../faces/tables/table-thread.ts";
export type { RowArray, RowElement, RowNumber } from "../kernel/row-element.ts";
export type { RowPlace, UpdateOf } from "../store/row-types/column-updates.ts";
export { type PsRowType, type PsRowTypeOptions, psRowType } from "../store/row-types/ps-row-type.ts";
export type { RowUpdates } from "../worker/tables/row-updates.ts";
export type { TableReport, TableStatistics, TableTotals } from "../worker/tables/table-statistics.ts";
export { TableGroup, type TableGroupOptions } from "./tables-session.ts";
export { attachTableThread, startTableThread, type ThreadStart } from "./tables-threads.ts";
