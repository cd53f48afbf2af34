// codec-half — f32 to 16 bits and back: fp16 (IEEE binary16) and bf16 (the upper half of an f32). Rounds to the
// nearest, ties to even. Nothing but integer operations touches a NaN, so the bits are the same everywhere.
//
// fp16: let e be the exponent of |x|, at least -14. The f32 numbers from 2^(e+13) on lie as far apart as the fp16
// numbers do at |x|, so |x| + 2^(e+13) is rounded as fp16 rounds, subnormals included; what it exceeds 2^(e+13) by,
// counted in steps, is the fraction.

import { held } from "./held-constant.as";

const F32_INFINITY: u32 = 0x7f80_0000;
const MAGNITUDE: u32 = 0x7fff_ffff;
const FP16_OVERFLOW: u32 = 143 << 23; // 2^16, which the rounding turns into infinity
const FP16_EXPONENT_MIN: u32 = 113 << 23; // 2^-14
const FP16_STEP: u32 = 13 << 23; // from an exponent to that of the number that is added
const FP16_BASE: u32 = FP16_STEP + (FP16_EXPONENT_MIN >> 13);
const FP16_REBIAS: u32 = 112 << 23; // from the exponents of fp16 to those of f32

export function encodeFp16(source: usize, floatCount: u32, target: usize): void {
  const magnitudes = held(MAGNITUDE), overflow = held(FP16_OVERFLOW), infinity = held(F32_INFINITY);
  const smallest = held(FP16_EXPONENT_MIN), step = held(FP16_STEP), base = held(FP16_BASE);
  const end = source + (<usize>floatCount << 2);
  for (const wide = source + (<usize>(floatCount & ~7) << 2); source < wide; source += 32, target += 16) {
    const lower = toFp16(v128.load(source), magnitudes, overflow, infinity, smallest, step, base);
    const upper = toFp16(v128.load(source, 16), magnitudes, overflow, infinity, smallest, step, base);
    v128.store(target, i16x8.narrow_i32x4_u(lower, upper));
  }
  for (; source < end; source += 4, target += 2) {
    const half = toFp16(v128.load32_zero(source), magnitudes, overflow, infinity, smallest, step, base);
    store<u16>(target, <u16>i32x4.extract_lane(half, 0));
  }
}

/** Four floats to four fp16, each in 32 bits. */
@inline function toFp16(x: v128, magnitudes: v128, overflow: v128, infinity: v128, smallest: v128, step: v128, base: v128): v128 {
  const magnitude = v128.and(x, magnitudes);
  const clamped = i32x4.min_u(magnitude, overflow);
  const exponent = i32x4.max_u(v128.and(clamped, infinity), smallest);
  const stepped = f32x4.add(clamped, i32x4.add(exponent, step));
  const rounded = i32x4.sub(i32x4.add(i32x4.sub(stepped, exponent), i32x4.shr_u(exponent, 13)), base);
  const nanBit = i32x4.shl(i32x4.shr_u(i32x4.gt_s(magnitude, infinity), 31), 9); // beside the exponent of infinity
  const sign = i32x4.shr_u(v128.xor(x, magnitude), 16);
  return v128.or(v128.or(rounded, nanBit), sign);
}

export function decodeFp16(source: usize, floatCount: u32, target: usize): void {
  const magnitudes = held(0x7fff), largest = held(0x7bff), rebias = held(FP16_REBIAS), smallest = held(FP16_EXPONENT_MIN);
  const normals = held(0x400), end = target + (<usize>floatCount << 2);
  for (const wide = target + (<usize>(floatCount & ~7) << 2); target < wide; target += 32, source += 16) {
    const halves = v128.load(source);
    v128.store(target, fromFp16(i32x4.extend_low_i16x8_u(halves), magnitudes, largest, rebias, smallest, normals));
    v128.store(target, fromFp16(i32x4.extend_high_i16x8_u(halves), magnitudes, largest, rebias, smallest, normals), 16);
  }
  for (; target < end; target += 4, source += 2) {
    const float = fromFp16(i32x4.splat(load<u16>(source)), magnitudes, largest, rebias, smallest, normals);
    store<u32>(target, i32x4.extract_lane(float, 0));
  }
}

/** Four fp16, each in 32 bits, to four floats. */
@inline function fromFp16(half: v128, magnitudes: v128, largest: v128, rebias: v128, smallest: v128, normals: v128): v128 {
  const magnitude = v128.and(half, magnitudes), shifted = i32x4.shl(magnitude, 13);
  // Infinity and NaN have the highest exponent of both.
  const special = v128.and(i32x4.gt_s(magnitude, largest), rebias);
  const normal = i32x4.add(i32x4.add(shifted, rebias), special);
  const subnormal = f32x4.sub(v128.or(shifted, smallest), smallest); // as floats: 2^-14 and the fraction, less 2^-14
  const chosen = v128.bitselect(subnormal, normal, i32x4.gt_s(normals, magnitude));
  return v128.or(chosen, i32x4.shl(v128.xor(half, magnitude), 16));
}

export function encodeBf16(source: usize, floatCount: u32, target: usize): void {
  const magnitudes = held(MAGNITUDE), infinity = held(F32_INFINITY), half = held(0x7fff), quiet = held(0x40);
  const end = source + (<usize>floatCount << 2);
  for (const wide = source + (<usize>(floatCount & ~7) << 2); source < wide; source += 32, target += 16) {
    const lower = toBf16(v128.load(source), magnitudes, infinity, half, quiet);
    v128.store(target, i16x8.narrow_i32x4_u(lower, toBf16(v128.load(source, 16), magnitudes, infinity, half, quiet)));
  }
  for (; source < end; source += 4, target += 2) {
    store<u16>(target, <u16>i32x4.extract_lane(toBf16(v128.load32_zero(source), magnitudes, infinity, half, quiet), 0));
  }
}

/**
 * Four floats to four bf16, each in 32 bits. A NaN keeps its upper bits and is made quiet: rounding could turn it into
 * infinity.
 */
@inline function toBf16(x: v128, magnitudes: v128, infinity: v128, half: v128, quiet: v128): v128 {
  const odd = i32x4.shr_u(i32x4.shl(x, 15), 31); // whether the upper half is odd
  const isNan = i32x4.gt_s(v128.and(x, magnitudes), infinity);
  const rounded = i32x4.shr_u(i32x4.add(i32x4.add(x, half), odd), 16);
  return v128.bitselect(v128.or(i32x4.shr_u(x, 16), quiet), rounded, isNan);
}

export function decodeBf16(source: usize, floatCount: u32, target: usize): void {
  const end = target + (<usize>floatCount << 2);
  for (const wide = target + (<usize>(floatCount & ~7) << 2); target < wide; target += 32, source += 16) {
    const halves = v128.load(source);
    v128.store(target, i32x4.shl(i32x4.extend_low_i16x8_u(halves), 16));
    v128.store(target, i32x4.shl(i32x4.extend_high_i16x8_u(halves), 16), 16);
  }
  for (; target < end; target += 4, source += 2) store<u32>(target, <u32>load<u16>(source) << 16);
}
