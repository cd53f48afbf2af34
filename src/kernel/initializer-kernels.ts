// initializer-kernels — computes the first values of parameters from a recipe in the arena. Not the meaning of a spec
// (store/initializers). kernels/initializers.as.ts defines how bits become values; PlainInitializerKernels is the
// reference, equal bit for bit.
//
// Invariants:
//   InitializerKernels.I1. A value depends on the recipe and its element index (tensor), or its key and column (table):
//       not on what else the call initializes, nor on the server.
//   InitializerKernels.I2. All 64 bits of keys and indexes count.

import type { Arena } from "./arena.ts";

/** Kinds of recipes, the same numbers as in kernels/initializers.as.ts. */
export const INITIALIZER = { constant: 0, uniform: 1, normal: 2, truncatedNormal: 3 } as const;

export type Recipe = {
  readonly kind: (typeof INITIALIZER)[keyof typeof INITIALIZER];
  /** The address of the quantile table; 0 without normal numbers. */
  readonly quantiles: number;
  /** A u64 that no other parameter has, except by chance. */
  readonly stream: bigint;
  /** constant: the value. uniform: the lowest value. normal: the mean. */
  readonly offset: number;
  /** uniform: (high - low) / 2^24. normal: the standard deviation. */
  readonly scale: number;
  /** uniform: the greatest value. */
  readonly top: number;
  /** truncated: see normal-quantiles. */
  readonly cut: number;
};

export const RECIPE_BYTES = 48;

/** kind u32 | quantiles u32 | stream u64 | offset f64 | scale f64 | top f64 | cut u64 */
export function writeRecipe(arena: Arena, address: number, recipe: Recipe): void {
  const view = new DataView(arena.memory.buffer, address, RECIPE_BYTES);
  view.setUint32(0, recipe.kind, true);
  view.setUint32(4, recipe.quantiles, true);
  view.setBigUint64(8, recipe.stream, true);
  view.setFloat64(16, recipe.offset, true);
  view.setFloat64(24, recipe.scale, true);
  view.setFloat64(32, recipe.top, true);
  view.setBigUint64(40, BigInt(recipe.cut), true);
}

export function readRecipe(arena: Arena, address: number): Recipe {
  const view = new DataView(arena.memory.buffer, address, RECIPE_BYTES);
  return {
    kind: view.getUint32(0, true) as Recipe["kind"],
    quantiles: view.getUint32(4, true),
    stream: view.getBigUint64(8, true),
    offset: view.getFloat64(16, true),
    scale: view.getFloat64(24, true),
    top: view.getFloat64(32, true),
    cut: Number(view.getBigUint64(40, true)),
  };
}

/** Numbers side by side, against the house rule: this is the WebAssembly boundary. */
export interface InitializerKernels {
  /** Sets elements of a tensor, from the index (a u64 at the address `firstIndex`) on; the last index is below 2^64. */
  initialize(recipe: number, target: number, floatCount: number, firstIndex: number): void;
  /** Sets the `width` values of each key's (u64) row; `rows` lists the addresses (u32) of their first values. */
  initializeRows(recipe: number, rows: number, keys: number, rowCount: number, width: number): void;
}

export class SimdInitializerKernels implements InitializerKernels {
  readonly initialize: InitializerKernels["initialize"];
  readonly initializeRows: InitializerKernels["initializeRows"];

  constructor(arena: Arena) {
    this.initialize = arena.module.initialize;
    this.initializeRows = arena.module.initializeRows;
  }
}
