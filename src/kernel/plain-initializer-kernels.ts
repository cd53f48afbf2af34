// plain-initializer-kernels — the reference of InitializerKernels: one element at a time, from its index alone, with
// bigints. Slow; for tests.

import type { Arena } from "./arena.ts";
import { INITIALIZER, type InitializerKernels, type Recipe, readRecipe } from "./initializer-kernels.ts";
import { normalQuantiles } from "./normal-quantiles.ts";

const STEP = 0x9e37_79b9_7f4a_7c15n;
const f = Math.fround;

export class PlainInitializerKernels implements InitializerKernels {
  readonly #arena: Arena;
  readonly #quantiles: Float64Array = normalQuantiles();

  constructor(arena: Arena) {
    this.#arena = arena;
  }

  initialize(recipe: number, target: number, floatCount: number, firstIndex: number): void {
    const read = readRecipe(this.#arena, recipe);
    const first = this.#keyAt(firstIndex);
    for (let i = 0; i < floatCount; i++) {
      this.#arena.floats[target / 4 + i] = this.#value(read, bitsAt(read.stream, BigInt.asUintN(64, first + BigInt(i))));
    }
  }

  initializeRows(recipe: number, rows: number, keys: number, rowCount: number, width: number): void {
    const read = readRecipe(this.#arena, recipe);
    for (let i = 0; i < rowCount; i++) {
      const stream = finish(read.stream + this.#keyAt(keys + i * 8) * STEP);
      const row = this.#arena.words[rows / 4 + i]! / 4;
      for (let j = 0; j < width; j++) this.#arena.floats[row + j] = this.#value(read, bitsAt(stream, BigInt(j)));
    }
  }

  #value(recipe: Recipe, bits: number): number {
    const { kind, offset, scale, top, cut } = recipe;
    if (kind === INITIALIZER.constant) return f(offset);
    if (kind === INITIALIZER.uniform) return Math.min(f(f(offset) + f(f(scale) * Math.floor(bits / 256))), f(top));
    const odd = (bits | 1) >>> 0;
    const h = kind === INITIALIZER.normal ? odd : cut + Number((BigInt(odd) * BigInt(2 ** 32 - cut)) >> 32n);
    const z = this.#quantile(h);
    return f(offset + scale * (bits % 2 === 1 ? z : -z));
  }

  #quantile(h: number): number {
    const octave = 31 - Math.clz32(h);
    const position = (h / 2 ** octave - 1) * 32;
    const piece = Math.floor(position);
    const t = position - piece;
    const [c0, c1, c2, c3] = this.#quantiles.subarray((octave * 32 + piece) * 4);
    return c0! + t * (c1! + t * (c2! + t * c3!));
  }

  #keyAt(address: number): bigint {
    const { words } = this.#arena;
    return (BigInt(words[address / 4 + 1]!) << 32n) | BigInt(words[address / 4]!);
  }
}

/** The 32 bits of an element. */
function bitsAt(stream: bigint, index: bigint): number {
  const pair = finish(stream + (index >> 1n) * STEP);
  return Number(index % 2n === 0n ? pair & 0xffff_ffffn : pair >> 32n);
}

function finish(state: bigint): bigint {
  let x = BigInt.asUintN(64, state);
  x = BigInt.asUintN(64, (x ^ (x >> 32n)) * 0xb7d9_43f8_c429_3bf5n);
  x = BigInt.asUintN(64, (x ^ (x >> 29n)) * 0xd415_6625_a93d_5107n);
  return x ^ (x >> 32n);
}
