// initializers — first values of parameters. A value depends on the parameter's stream and its index alone: no state,
// no order, so every server and every pull of a missing row gives the same one.
//
//   element i of a tensor         half i mod 2 (low, high) of finish(stream + ⌊i/2⌋ · STEP)
//   element j of the row of key   half j mod 2 of finish(s + ⌊j/2⌋ · STEP), s = finish(stream + key · STEP)
//
//   constant    offset
//   uniform     min(offset + scale · ⌊bits / 2^8⌋, top)     rounded to f32 after each operation;
//                                                           scale = (high - low) / 2^24
//   normal      offset ± scale · z(h), h = bits | 1, the sign from bit 0; in f64, rounded to f32 once
//   truncated   the same with h moved into [cut, 2^32): every z is at most 2, distributed as if resampled until it is
//
// z(h) is the quantile of the upper tail h/2^33, by cubics over 32 pieces of each octave of h
// (src/kernel/normal-quantiles.ts makes them from + - * / and √ alone, so that all machines have the same).
//
//   Initializers.N1. Only +, -, *, conversions and integer operations: the plain reference gives the same bits.
//   Initializers.N2. All 64 bits of a key and of an index count.

import { fillFloats } from "./slots.as";

export const CONSTANT: u32 = 0;
const UNIFORM: u32 = 1;
const NORMAL: u32 = 2;
const TRUNCATED: u32 = 3;

const STEP: u64 = 0x9e3779b97f4a7c15;

/** A plain struct at an address; the same fields as RECIPE in src/kernel/initializer-kernels.ts. */
@unmanaged
export class Recipe {
  kind: u32;
  /** The address of the cubics: 4 f64 for each of 1,024 pieces. */
  quantiles: u32;
  stream: u64;
  offset: f64;
  scale: f64;
  top: f64;
  cut: u64;
}

@inline function finish(x: u64): u64 {
  x = (x ^ (x >> 32)) * 0xb7d943f8c4293bf5;
  x = (x ^ (x >> 29)) * 0xd4156625a93d5107;
  return x ^ (x >> 32);
}

@inline function quantile(quantiles: usize, h: u32): f64 {
  const shift = clz(h), mantissa = h << shift;
  const piece = quantiles + (<usize>(((31 - shift) << 5) | ((mantissa >> 26) & 31)) << 5);
  const t = <f64>(mantissa & 0x3ffffff) * (1.0 / 67108864.0);
  return load<f64>(piece) + t * (load<f64>(piece, 8) + t * (load<f64>(piece, 16) + t * load<f64>(piece, 24)));
}

@inline function uniformValue(recipe: Recipe, bits: u32): f32 {
  return min<f32>(<f32>recipe.offset + <f32>recipe.scale * <f32>(bits >> 8), <f32>recipe.top);
}

@inline function normalValue(recipe: Recipe, bits: u32, truncated: bool): f32 {
  let h = bits | 1;
  if (truncated) h = <u32>(recipe.cut + ((<u64>h * (0x100000000 - recipe.cut)) >> 32));
  // A branch on the sign would be mispredicted half the time.
  const z = reinterpret<u64>(quantile(recipe.quantiles, h)) ^ (<u64>(~bits) << 63);
  return <f32>(recipe.offset + recipe.scale * reinterpret<f64>(z));
}

@inline function valueOf(recipe: Recipe, bits: u32): f32 {
  return recipe.kind == UNIFORM ? uniformValue(recipe, bits) : normalValue(recipe, bits, recipe.kind == TRUNCATED);
}

/** Pairs of elements from `state` on. */
function fillUniform(recipe: Recipe, target: usize, state: u64, pairs: u32): void {
  const offset = f32x4.splat(<f32>recipe.offset), scale = f32x4.splat(<f32>recipe.scale), top = f32x4.splat(<f32>recipe.top);
  for (; pairs >= 2; pairs -= 2, target += 16, state += 2 * STEP) {
    const bits = i64x2.replace_lane(i64x2.splat(<i64>finish(state)), 1, <i64>finish(state + STEP));
    const share = f32x4.mul(scale, f32x4.convert_i32x4_s(i32x4.shr_u(bits, 8)));
    v128.store(target, f32x4.pmin(f32x4.add(offset, share), top));
  }
  if (pairs != 0) {
    const bits = finish(state);
    store<f32>(target, uniformValue(recipe, <u32>bits));
    store<f32>(target, uniformValue(recipe, <u32>(bits >> 32)), 4);
  }
}

function fillNormal(recipe: Recipe, target: usize, state: u64, pairs: u32): void {
  for (; pairs != 0; pairs--, target += 8, state += STEP) {
    const bits = finish(state);
    store<f32>(target, normalValue(recipe, <u32>bits, false));
    store<f32>(target, normalValue(recipe, <u32>(bits >> 32), false), 4);
  }
}

function fillTruncated(recipe: Recipe, target: usize, state: u64, pairs: u32): void {
  for (; pairs != 0; pairs--, target += 8, state += STEP) {
    const bits = finish(state);
    store<f32>(target, normalValue(recipe, <u32>bits, true));
    store<f32>(target, normalValue(recipe, <u32>(bits >> 32), true), 4);
  }
}

/** Elements `first` to `first` + floatCount - 1 of a stream. */
function fillStream(recipe: Recipe, target: usize, floatCount: u32, stream: u64, first: u64): void {
  let state = stream + (first >> 1) * STEP;
  if ((first & 1) != 0 && floatCount != 0) {
    store<f32>(target, valueOf(recipe, <u32>(finish(state) >> 32)));
    target += 4;
    floatCount--;
    state += STEP;
  }
  const pairs = floatCount >> 1;
  switch (recipe.kind) {
    case UNIFORM: fillUniform(recipe, target, state, pairs); break;
    case NORMAL: fillNormal(recipe, target, state, pairs); break;
    default: fillTruncated(recipe, target, state, pairs);
  }
  if ((floatCount & 1) != 0) store<f32>(target + (<usize>pairs << 3), valueOf(recipe, <u32>finish(state + <u64>pairs * STEP)));
}

/** Elements of a tensor, from the index (u64) at `firstIndex` on. */
export function initialize(recipe: Recipe, target: usize, floatCount: u32, firstIndex: usize): void {
  if (recipe.kind == CONSTANT) fillFloats(target, floatCount, <f32>recipe.offset);
  else fillStream(recipe, target, floatCount, recipe.stream, load<u64>(firstIndex));
}

/** One table row. For kernels that make or stand in for a missing row. */
export function initializeRow(recipe: Recipe, target: usize, key: u64, width: u32): void {
  if (recipe.kind == CONSTANT) fillFloats(target, width, <f32>recipe.offset);
  else fillStream(recipe, target, width, finish(recipe.stream + key * STEP), 0);
}

/** The rows of `rowCount` keys (u64), at the listed addresses (u32) of their first values. */
export function initializeRows(recipe: Recipe, rows: usize, keys: usize, rowCount: u32, width: u32): void {
  for (let i: u32 = 0; i < rowCount; i++, rows += 4, keys += 8) initializeRow(recipe, load<u32>(rows), load<u64>(keys), width);
}
