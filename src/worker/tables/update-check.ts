// update-check — what may be added to the rows of a table: columns that it has, and updates of its element. An
// increment asks here, so nothing allocates unless it fails.

import { badArgument, showValue, WeighbridgeError } from "../../base/errors.ts";
import { ROW_ELEMENTS, type RowElement } from "../../kernel/row-element.ts";
import type { UpdateOf } from "../../store/row-types/column-updates.ts";

export class UpdateCheck<E extends RowElement = RowElement> {
  readonly #name: string;
  readonly #element: E;
  readonly #columnCount: number;
  readonly #isFloat: boolean;
  readonly #isWide: boolean;

  /** `name`: of the table, for errors. */
  constructor(name: string, element: E, columnCount: number) {
    this.#name = name;
    this.#element = element;
    this.#columnCount = columnCount;
    this.#isFloat = ROW_ELEMENTS[element].isFloat;
    this.#isWide = element === "i64";
  }

  /** Throws OUT_OF_RANGE for what is no column; NOT_FINITE and BAD_ARGUMENT for what is no update. */
  update(column: number, update: UpdateOf<E>): void {
    if (!(column >= 0 && column < this.#columnCount) || column % 1 !== 0) throw this.#badColumn(column);
    if (this.#isWide) {
      if (typeof update === "bigint") return;
    } else if (this.#isFloat) {
      if ((update as number) - (update as number) === 0) return; // not NaN, not infinite
    } else if ((update as number) % 1 === 0) return;
    throw this.#badUpdate(column, update);
  }

  #badColumn(column: number): WeighbridgeError {
    const message = `${this.#name} has columns 0 to ${this.#columnCount - 1}, and no column ${showValue(column)}`;
    return new WeighbridgeError("OUT_OF_RANGE", message);
  }

  #badUpdate(column: number, update: unknown): WeighbridgeError {
    const isNumber = typeof update === "number" && !this.#isWide;
    const expected = this.#isWide ? "a bigint" : this.#isFloat ? "a finite number" : "a whole number";
    const message = `column ${column} of ${this.#name} is ${this.#element}: an update is ${expected}, not ${showValue(update)}`;
    return new WeighbridgeError(isNumber && !Number.isFinite(update) ? "NOT_FINITE" : "BAD_ARGUMENT", message);
  }
}

/** Throws BAD_ARGUMENT. */
export function checkRowId(rowId: number): void {
  if (Number.isSafeInteger(rowId) && rowId >= 0) return;
  throw badArgument(`the id of a row is a whole number from 0 to 2^53 - 1, not ${showValue(rowId)}`);
}
