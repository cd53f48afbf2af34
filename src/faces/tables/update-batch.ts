// update-batch — several updates of one row (Petuum: UpdateBatch, DenseUpdateBatch). A column that is named twice
// counts twice.

import { showValue, WeighbridgeError } from "../../base/errors.ts";
import type { RowArray } from "../../kernel/row-element.ts";

/** Of the kind of number that the table's rows are made of. */
export class UpdateBatch<U extends number | bigint = number> {
  readonly columns: number[] = [];
  readonly updates: U[] = [];

  /** Adds an update of a column. Columns and updates are checked when the batch is used. */
  update(column: number, update: U): this {
    this.columns.push(column);
    this.updates.push(update);
    return this;
  }

  get size(): number {
    return this.columns.length;
  }
}

/** Updates of the columns from `start` on. */
export class DenseUpdateBatch<A extends RowArray = Float32Array> {
  readonly start: number;
  readonly updates: A;

  constructor(start: number, updates: A) {
    if (!(Number.isSafeInteger(start) && start >= 0))
      throw new WeighbridgeError("BAD_ARGUMENT", `a batch begins with a column, a whole number from 0 up, not ${showValue(start)}`);
    this.start = start;
    this.updates = updates;
  }
}
