// value-requests — what a ValueStore is asked, as addresses in the arena. All memory stays the caller's: nothing is kept past the call.

export type Push = {
  /** Address of keyCount × u64, strictly ascending. */
  readonly keys: number;
  readonly keyCount: number;
  /** Floats per key, at least 1. */
  readonly width: number;
  /** Address of keyCount × width × f32. */
  readonly values: number;
};

export type PushVariable = {
  readonly keys: number;
  /** Address of keyCount × i32: how many floats each key has. 0 is legal and does nothing. */
  readonly lens: number;
  readonly keyCount: number;
  readonly values: number;
  /** The sum of `lens`. */
  readonly valueCount: number;
};

export type PushBlock = {
  /** Address of one u64. */
  readonly key: number;
  /** Floats of the whole value, at least LARGE_WIDTH_MIN. */
  readonly width: number;
  readonly blockIndex: number;
  readonly values: number;
  /** Floats of this block: BLOCK_FLOATS, or the rest in the last one. */
  readonly floatCount: number;
};

export type Pull = {
  /** Address of keyCount × u64, in any order. */
  readonly keys: number;
  readonly keyCount: number;
  readonly width: number;
  /** Address where keyCount × width × f32 are written; unspecified after an error. */
  readonly out: number;
};

export type PullVariable = {
  readonly keys: number;
  readonly keyCount: number;
  /** Address of keyCount × i32, as `lengths` wrote them. */
  readonly lens: number;
  readonly out: number;
};
