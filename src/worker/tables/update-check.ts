// update-check — what may be added to the rows of a table: columns that it has, and updates of its element. An
// increment asks here, so nothing allocates unless it fails.

import { badArgument, showValue, WeighbridgeError } from "../../base/errors.ts";
import type { RowElement } from "../../kernel/row-element.ts";
import type { UpdateOf } from "../../store/row-types/column-updates.ts";

/** What an update of each element must be, for messages. */
const EXPECTED: Readonly<Record<RowElement, string>> = {
  f32: "a finite number that 32 bits can hold",
  f64: "a finite number",
  i32: "a whole number from -2^31 to 2^31 - 1",
  i64: "a bigint from -2^63 to 2^63 - 1",
};

export class UpdateCheck<E extends RowElement = RowElement> {
  readonly #name: string;
  readonly #element: E;
  readonly #columnCount: number;
  readonly #isSingle: boolean;
  readonly #isDouble: boolean;
  readonly #isWide: boolean;

  /** `name`: of the table, for errors. */
  constructor(name: string, element: E, columnCount: number) {
    this.#name = name;
    this.#element = element;
    this.#columnCount = columnCount;
    this.#isSingle = element === "f32";
    this.#isDouble = element === "f64";
    this.#isWide = element === "i64";
  }

  /**
   * Throws OUT_OF_RANGE for what is no column, and for a number that the element cannot hold; NOT_FINITE and
   * BAD_ARGUMENT for what is no update. The tests of types cost nothing: V8 compiles them away where they hold.
   */
  update(column: number, update: UpdateOf<E>): void {
    if (typeof column !== "number" || column >>> 0 !== column || column >= this.#columnCount) throw this.#badColumn(column);
    if (this.#isSingle) {
      if (typeof update === "number") {
        const single = Math.fround(update);
        if (single - single === 0) return; // not NaN, not infinite
      }
    } else if (this.#isWide) {
      if (typeof update === "bigint" && BigInt.asIntN(64, update) === update) return;
    } else if (typeof update === "number") {
      if (this.#isDouble) {
        if (update - update === 0) return;
      } else if ((update | 0) === update) return;
    }
    throw this.#badUpdate(column, update);
  }

  #badColumn(column: unknown): WeighbridgeError {
    const message = `${this.#name} has columns 0 to ${this.#columnCount - 1}, and no column ${showValue(column)}`;
    return new WeighbridgeError("OUT_OF_RANGE", message);
  }

  #badUpdate(column: number, update: unknown): WeighbridgeError {
    const element = this.#element;
    const message = `an update of column ${column} of ${this.#name} must be ${EXPECTED[element]} (${element}), got ${showValue(update)}`;
    if (this.#isWide) return new WeighbridgeError(typeof update === "bigint" ? "OUT_OF_RANGE" : "BAD_ARGUMENT", message);
    if (typeof update !== "number") return badArgument(message);
    if (!Number.isFinite(update)) return new WeighbridgeError("NOT_FINITE", message);
    return new WeighbridgeError(this.#isSingle || update % 1 === 0 ? "OUT_OF_RANGE" : "BAD_ARGUMENT", message);
  }
}

/** Throws BAD_ARGUMENT. */
export function checkRowId(rowId: number): void {
  if (Number.isSafeInteger(rowId) && rowId >= 0) return;
  throw badArgument(`the id of a row is a whole number from 0 to 2^53 - 1, not ${showValue(rowId)}`);
}
