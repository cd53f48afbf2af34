// optimizer-kernels — the updates that a server applies to its values, and the checks of pushed gradients. Not the
// meaning of a spec (store/updaters). SimdOptimizerKernels runs, PlainOptimizerKernels is the reference.
//
//   table row   [ key u64 | values | slot 0 | slot 1 | … | words u32 ]   each slot as wide as the values
//   block       [ values of all rows ]   [ slot 0 of all rows | … ]    slot k begins k × slotStride bytes after `slots`
//               [ steps u32 of all rows ]                                Adam with steps per row: hyper.rowSteps
//
// Row-wise AdaGrad has a slot of one float per row: after the values in a table, at slots + 4r for row r of a block.
// Kernels scale a gradient, clip it by value and add weight decay × value, unless a formula says otherwise.
//
// Invariants:
//   OptimizerKernels.O1. Every operation rounds to f32, in the written order: all implementations give the same bits,
//       NaN payloads excepted.
//   OptimizerKernels.O2. Rows are updated in the order of the list, one listed twice twice. Callers sum duplicates
//       first.
//   OptimizerKernels.O3. One call per message. It reads the hyper-parameters, HYPER_FLOATS f64 in the arena, 8-byte
//       aligned.
//   OptimizerKernels.O4. Addresses of floats and of u32 lists are multiples of 4. Counts may be 0. No call keeps an
//       address.

import type { Arena } from "./arena.ts";

/** Numbers of the optimizers, the same as in kernels/optimizers.as.ts. */
export const OPTIMIZER = {
  sum: 0,
  assign: 1,
  min: 2,
  max: 3,
  sgd: 4,
  momentum: 5,
  nesterov: 6,
  adagrad: 7,
  rowWiseAdagrad: 8,
  adam: 9,
  lazyAdam: 10,
  adamW: 11,
  rmsprop: 12,
  rmspropMomentum: 13,
  ftrl: 14,
  dcAsgd: 15,
} as const;

export type OptimizerNumber = (typeof OPTIMIZER)[keyof typeof OPTIMIZER];

/** Index of each hyper-parameter among the f64 of `hyper`; those that an optimizer does not name are not read. */
export const HYPER = {
  /** After the schedule. */
  learningRate: 0,
  /** Multiplies the gradient first: 1, or the factor of clipping by norm or of a mean. */
  gradientScale: 1,
  /** The scaled gradient is cut to ± this; Infinity leaves it. */
  clipValue: 2,
  weightDecay: 3,
  epsilon: 4,
  /** Momentum, or the decay of the first moment. */
  beta1: 5,
  /** The decay of the second moment. */
  beta2: 6,
  /** Adam: 1 / (1 - beta1^step). */
  correction1: 7,
  /** Adam: 1 / √(1 - beta2^step). */
  correction2: 8,
  /** Adam on rows that count their steps: the address of its betas' powers (writeBetaPowers). */
  betaPowers: 9,
  l1: 10,
  l2: 11,
  ftrlBeta: 12,
  /** DC-ASGD: the strength of the compensation. */
  lambda: 13,
  /** DC-ASGD: which slot holds the values that the gradient was computed on. */
  backupSlot: 14,
  /** Adam with steps per row in a block: the address of a u32 for each row; 0 if all rows have the same step. */
  rowSteps: 15,
  /** What a row's step is beyond its own count. */
  stepBase: 16,
  /** How many updates a row's own count gets: 1, or 0 if stepBase has counted this one for all rows. */
  stepIncrement: 17,
  /**
   * DC-ASGD on table rows: the address of a u32 list, for each row the address of the values that its gradient was
   * computed on, or 0 if those are in `backupSlot`. 0: they are there for all rows.
   */
  pulledRows: 18,
} as const;

export const HYPER_FLOATS = 19;
export const HYPER_BYTES: number = HYPER_FLOATS * 8;

/** Numbers side by side, against the house rule: this is the WebAssembly boundary, and a call must not allocate. */
export interface OptimizerKernels {
  /**
   * Updates table rows: `rows` lists the address (u32) of each row's first value, `gradients` holds width floats for
   * each. Slots, then words, follow the values of a row.
   */
  updateRows(optimizer: OptimizerNumber, rows: number, rowCount: number, width: number, gradients: number, hyper: number): void;
  /**
   * Updates all rows of a block. Reads values at `source` and writes them at `target`: the same span, or a fresh one
   * while a socket still sends the old. Slots change in the same memory.
   */
  updateBlock(
    optimizer: OptimizerNumber,
    target: number,
    source: number,
    slots: number,
    slotStride: number,
    gradients: number,
    rowCount: number,
    width: number,
    hyper: number,
  ): void;
  /**
   * Updates the rows of a block that `rows` lists (u32 indexes within the block), with width floats of gradient each.
   */
  updateBlockRows(
    optimizer: OptimizerNumber,
    values: number,
    slots: number,
    slotStride: number,
    rows: number,
    rowCount: number,
    width: number,
    gradients: number,
    hyper: number,
  ): void;

  /** Sets `floatCount` floats to `value` in each listed row (u32 addresses), `offset` bytes after its address. */
  fillRows(rows: number, rowCount: number, offset: number, floatCount: number, value: number): void;
  /** Copies the first `floatCount` floats of each listed row to `offset` bytes after them, without overlap. */
  repeatRows(rows: number, rowCount: number, offset: number, floatCount: number): void;
  fillFloats(target: number, floatCount: number, value: number): void;

  /** The greatest magnitude of all; NaN or Infinity when one of them is. 0 for none. */
  greatestMagnitude(address: number, floatCount: number): number;
  /** The index of the first NaN or infinity, -1 when all is finite. */
  checkFinite(address: number, floatCount: number): number;
  /** Sets every NaN and infinity to 0. Returns how many there were. */
  zeroNonFinite(address: number, floatCount: number): number;
}

export class SimdOptimizerKernels implements OptimizerKernels {
  readonly updateRows: OptimizerKernels["updateRows"];
  readonly updateBlock: OptimizerKernels["updateBlock"];
  readonly updateBlockRows: OptimizerKernels["updateBlockRows"];
  readonly fillRows: OptimizerKernels["fillRows"];
  readonly repeatRows: OptimizerKernels["repeatRows"];
  readonly fillFloats: OptimizerKernels["fillFloats"];
  readonly greatestMagnitude: OptimizerKernels["greatestMagnitude"];
  readonly checkFinite: OptimizerKernels["checkFinite"];
  readonly zeroNonFinite: OptimizerKernels["zeroNonFinite"];

  constructor(arena: Arena) {
    const { module } = arena;
    this.updateRows = module.updateRows;
    this.updateBlock = module.updateBlock;
    this.updateBlockRows = module.updateBlockRows;
    this.fillRows = module.fillRows;
    this.repeatRows = module.repeatRows;
    this.fillFloats = module.fillFloats;
    this.greatestMagnitude = module.greatestMagnitude;
    this.checkFinite = module.checkFinite;
    this.zeroNonFinite = module.zeroNonFinite;
  }
}

// Powers of Adam's two betas for any u32 exponent, from a table of 16 KiB: rows that count their own steps need them at
// every update, and squaring would cost more than the update itself.
//
//   level k, digit i      [ beta1^(i·256^k) f64 | beta2^(i·256^k) f64 ]      4 levels of 256 pairs
//   beta^t                the product of one entry of each level: the digits of t in base 256, grouped as (0·1)·(2·3)
const LEVELS = 4;
const DIGITS = 256;
export const BETA_POWERS_BYTES: number = LEVELS * DIGITS * 16;

export function writeBetaPowers(arena: Arena, address: number, beta1: number, beta2: number): void {
  const table = new Float64Array(arena.memory.buffer, address, LEVELS * DIGITS * 2);
  for (const [lane, beta] of [beta1, beta2].entries()) {
    let base = beta;
    for (let level = 0; level < LEVELS; level++) {
      let power = 1;
      for (let digit = 0; digit < DIGITS; digit++) {
        table[(level * DIGITS + digit) * 2 + lane] = power;
        power *= base;
      }
      base = power;
    }
  }
}

/** [beta1^exponent, beta2^exponent], as the kernel computes them. */
export function readBetaPowers(arena: Arena, address: number, exponent: number): readonly [number, number] {
  const table = new Float64Array(arena.memory.buffer, address, LEVELS * DIGITS * 2);
  const entry = (level: number, lane: number): number => table[(level * DIGITS + ((exponent >>> (8 * level)) & 255)) * 2 + lane]!;
  const product = (lane: number): number => entry(0, lane) * entry(1, lane) * (entry(2, lane) * entry(3, lane));
  return [product(0), product(1)];
}
