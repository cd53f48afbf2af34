// caller-array — whether a caller's array has the length that a call needs, and whether it is still there when the call
// wants to write to it, or read from it, later than in the turn in which it was given. An array whose memory was
// transferred away, or whose resizable buffer has shrunk, is shorter than it was. What frames refer to is looked at
// where they are sent (Call.K3). And how a caller reads one row of such an array.

import { badArgument, showValue, WeighbridgeError } from "../base/errors.ts";
import type { RowArray } from "../kernel/row-element.ts";
import { detachedError } from "../peer/call.ts";

/** An array, and how long it was when it was given. */
export class CallerArray {
  readonly #array: { readonly length: number };
  readonly #length: number;

  constructor(array: { readonly length: number }) {
    this.#array = array;
    this.#length = array.length;
  }

  get isIntact(): boolean {
    return this.#array.length >= this.#length;
  }

  /** Throws BUFFER_DETACHED. `isUpdate`: whether the call has changed something by now. */
  check(name: string, isUpdate: boolean): void {
    if (!this.isIntact) throw lostArray(name, isUpdate);
  }
}

/** BUFFER_DETACHED: an array of a call has shrunk. `isUpdate`: whether the call has changed something by now. */
export function lostArray(name: string, isUpdate: boolean): WeighbridgeError {
  const { message } = detachedError({ isUpdate, sendCount: 1 });
  return new WeighbridgeError("BUFFER_DETACHED", `${name}: ${message}`, { outcome: isUpdate ? "applied" : undefined });
}

/**
 * A view of row `i` of an array of rows that are `width` wide. Throws OUT_OF_RANGE for one that the array does not
 * have.
 */
export function rowOf<A extends RowArray>(values: A, i: number, { name, width }: { readonly name: string; readonly width: number }): A {
  const isThere = ArrayBuffer.isView(values) && Number.isInteger(i) && i >= 0 && (i + 1) * width <= values.length;
  if (!isThere) throw noRow(values, i, name, width);
  return values.subarray(i * width, (i + 1) * width) as A;
}

function noRow(values: unknown, i: number, name: string, width: number): WeighbridgeError {
  if (!ArrayBuffer.isView(values)) return badArgument(`${name}: rows must be read from an array that was pulled, got ${showValue(values)}`);
  const { length } = values as RowArray;
  const found = `an array of ${length} elements has ${Math.floor(length / width)} rows of ${width}`;
  return new WeighbridgeError("OUT_OF_RANGE", `${name}: ${found}; there is no row ${showValue(i)}`);
}

type ArrayLength = {
  readonly length: number;
  /** How many elements were expected: in all, or for each key. */
  readonly width: number;
  readonly keyCount?: number | undefined;
};

/** VALUE_LENGTH: `what` that a caller gave to a call of `name` has another length. */
export function wrongLength(name: string, what: string, { length, width, keyCount }: ArrayLength): WeighbridgeError {
  const each = keyCount === undefined ? "" : `, ${width} for each of ${keyCount} keys`;
  const expected = width * (keyCount ?? 1);
  return new WeighbridgeError("VALUE_LENGTH", `${name}: ${what} must have ${expected} elements${each}, got ${length}`);
}
