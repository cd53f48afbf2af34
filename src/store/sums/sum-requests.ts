// sum-requests — the requests to a SumStore, as addresses in the arena. The caller owns all memory: nothing is kept
// past the call. Widths and lengths count elements of the store's type.

import type { Arena } from "../../kernel/arena.ts";
import type { Kernels } from "../../kernel/kernels.ts";
import type { ElementKernels, RowKernels } from "../../kernel/row-kernels.ts";
import type { RowImages } from "../table-requests.ts";

/** What stores of sums are made of. */
export type SumHost = {
  readonly arena: Arena;
  readonly kernels: Kernels;
  readonly rowKernels: RowKernels;
  readonly elements: ElementKernels;
  /** Called before the first values of a width are kept. Must not throw. */
  readonly tableMade?: (() => void) | undefined;
};

/** Whose sums they are: an application of the kv face, by its number, or the data of `pushData`. */
export type SumOwner = number | "data";

export type Push = {
  /** Address of keyCount × u64, strictly ascending. */
  readonly keys: number;
  readonly keyCount: number;
  /** Elements per key, at least 1. */
  readonly width: number;
  /** Address of keyCount × width elements. */
  readonly values: number;
};

export type PushVariable = {
  readonly keys: number;
  /** Address of keyCount × i32: how many elements each key has. */
  readonly lens: number;
  readonly keyCount: number;
  readonly values: number;
  /** The sum of `lens`. */
  readonly valueCount: number;
  /** Whether a length of 0 makes its key, which then never has elements. Default: it does nothing. */
  readonly makesEmpty?: boolean | undefined;
};

export type PushBlock = {
  /** Address of one u64. */
  readonly key: number;
  /** Elements of the whole value. */
  readonly width: number;
  readonly blockIndex: number;
  readonly values: number;
  /** Elements of this block: as many as a block has, or the rest in the last one. */
  readonly elementCount: number;
};

export type Pull = {
  /** Address of keyCount × u64, in any order. */
  readonly keys: number;
  readonly keyCount: number;
  readonly width: number;
  /** Address where keyCount × width elements are written; unspecified after an error. */
  readonly out: number;
};

export type PullVariable = {
  readonly keys: number;
  readonly keyCount: number;
  /** Address of keyCount × i32, as `lengths` wrote them. */
  readonly lens: number;
  readonly out: number;
};

/** A copy of sums of one width: for each key its elements, and padding up to `payloads.length / keys.length` bytes. */
export type SumImages = RowImages & { readonly width: number };

/** How many keys of a width are going to be restored, by part. */
export type ExpectedSums = { readonly width: number; readonly byPart: Float64Array };
