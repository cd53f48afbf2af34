// codec-int8 — rows of f32 to one byte per value and back: q = nearest((x - zero) / scale), x' = q × scale + zero.
//
//   scale f32 × rows │ zero f32 × rows (centred only) │ q i8 × rows × width
//
// A scale is max |x - zero| / 127, at least 2^-126.
// Symmetric: zero is 0 and not sent. Centred: zero is the middle between the row's smallest and largest value.
//   CodecInt8.Q1. |x' - x| <= scale × (1/2 + 2^-15) + 2^-23 × |zero|.
//   CodecInt8.Q2. Nothing that is decoded is NaN or infinite: the encoder refuses magnitudes above 2^126, the decoder
//       scales, zeros and q that no encoder makes (the magnitude of a sum of two products below 2^126 is finite).

import { held } from "./held-constant.as";

const MAGNITUDE_MAX: u32 = 253 << 23; // 2^126, as bits
const SCALE_MIN: u32 = 1 << 23; // 2^-126, as bits: 1 / scale is no issue, and neither is a row of zeros
const STEPS: f32 = 127;
const SCALE_MAX: f32 = reinterpret<f32>(MAGNITUDE_MAX) / STEPS;
/** x + ROUNDER rounds x to a whole number, ties to even, and that number is in the low bits of the sum: 1.5 × 2^23. */
const ROUNDER: u32 = 0x4b40_0000;

@inline function magnitudeBits(x: f32): u32 {
  return reinterpret<u32>(x) & 0x7fff_ffff;
}

@inline function highest(x: v128): u32 {
  const pairs = i32x4.max_u(x, i32x4.shuffle(x, x, 2, 3, 0, 1));
  return max<u32>(i32x4.extract_lane(pairs, 0), i32x4.extract_lane(pairs, 1));
}

/**
 * The bits of the highest |x - zero| of a row: they are ordered as the magnitudes are, infinities and NaNs above all
 * numbers.
 */
function magnitudeOf(row: usize, width: u32, zero: f32): u32 {
  const end = row + (<usize>width << 2), zeros = f32x4.splat(zero), mask = held(0x7fff_ffff);
  let first = i32x4.splat(0), second = i32x4.splat(0), found: u32 = 0;
  for (const wide = row + (<usize>(width & ~7) << 2); row < wide; row += 32) {
    first = i32x4.max_u(first, v128.and(f32x4.sub(v128.load(row), zeros), mask));
    second = i32x4.max_u(second, v128.and(f32x4.sub(v128.load(row, 16), zeros), mask));
  }
  for (; row < end; row += 4) found = max(found, magnitudeBits(load<f32>(row) - zero));
  return max(found, highest(i32x4.max_u(first, second)));
}

/** Halfway between the smallest and the largest value of a row of numbers. */
function middleOf(row: usize, width: u32): f32 {
  const end = row + (<usize>width << 2), first = load<f32>(row);
  let lows = f32x4.splat(first), highs = lows;
  for (const wide = row + (<usize>(width & ~3) << 2); row < wide; row += 16) {
    lows = f32x4.pmin(lows, v128.load(row));
    highs = f32x4.pmax(highs, v128.load(row));
  }
  for (; row < end; row += 4) {
    lows = f32x4.pmin(lows, f32x4.splat(load<f32>(row)));
    highs = f32x4.pmax(highs, f32x4.splat(load<f32>(row)));
  }
  lows = f32x4.pmin(lows, i32x4.shuffle(lows, lows, 2, 3, 0, 1));
  highs = f32x4.pmax(highs, i32x4.shuffle(highs, highs, 2, 3, 0, 1));
  const low = min(f32x4.extract_lane(lows, 0), f32x4.extract_lane(lows, 1));
  const high = max(f32x4.extract_lane(highs, 0), f32x4.extract_lane(highs, 1));
  return <f32>0.5 * low + <f32>0.5 * high + <f32>0; // never -0
}

/** Four values of a row as whole numbers from -127 to 127. */
@inline function steps(x: v128, zeros: v128, scales: v128, rounder: v128): v128 {
  return i32x4.sub(f32x4.add(f32x4.div(f32x4.sub(x, zeros), scales), rounder), rounder);
}

function encodeRow(row: usize, width: u32, zero: f32, scale: f32, target: usize): void {
  const end = row + (<usize>width << 2), zeros = f32x4.splat(zero), scales = f32x4.splat(scale), rounder = held(ROUNDER);
  for (const wide = row + (<usize>(width & ~15) << 2); row < wide; row += 64, target += 16) {
    const lower = i16x8.narrow_i32x4_s(steps(v128.load(row), zeros, scales, rounder), steps(v128.load(row, 16), zeros, scales, rounder));
    const upper = i16x8.narrow_i32x4_s(steps(v128.load(row, 32), zeros, scales, rounder), steps(v128.load(row, 48), zeros, scales, rounder));
    v128.store(target, i8x16.narrow_i16x8_s(lower, upper));
  }
  for (; row < end; row += 4, target++) store<u8>(target, <u8>i32x4.extract_lane(steps(v128.load32_zero(row), zeros, scales, rounder), 0));
}

/**
 * The index of the first row with a value that cannot be sent (CodecInt8.Q2), or -1. What was written before it means
 * nothing then.
 */
export function encodeInt8Rows(source: usize, rowCount: u32, width: u32, centred: bool, target: usize): i32 {
  const scales = target, zeros = target + (<usize>rowCount << 2), rowBytes = <usize>width << 2;
  let bytes = zeros + (centred ? <usize>rowCount << 2 : 0);
  for (let i: u32 = 0; i < rowCount; i++, source += rowBytes, bytes += width) {
    let zero: f32 = 0, magnitude = magnitudeOf(source, width, 0);
    if (magnitude > MAGNITUDE_MAX) return i;
    if (centred) {
      zero = middleOf(source, width);
      magnitude = magnitudeOf(source, width, zero);
      store<f32>(zeros + (<usize>i << 2), zero);
    }
    const scale = max<f32>(reinterpret<f32>(magnitude) / STEPS, reinterpret<f32>(SCALE_MIN));
    store<f32>(scales + (<usize>i << 2), scale);
    encodeRow(source, width, zero, scale, bytes);
  }
  return -1;
}

@inline function values(bytes: v128, zeros: v128, scales: v128): v128 {
  return f32x4.add(f32x4.mul(f32x4.convert_i32x4_s(bytes), scales), zeros);
}

/** Whether no byte of the row is -128. */
function decodeRow(bytes: usize, width: u32, zero: f32, scale: f32, target: usize): bool {
  const end = bytes + width, zeros = f32x4.splat(zero), scales = f32x4.splat(scale);
  const lowest = held(0x8080_8080);
  let wrong = i8x16.splat(0), wrongs: u32 = 0;
  for (const wide = bytes + (width & ~15); bytes < wide; bytes += 16, target += 64) {
    const q = v128.load(bytes), lower = i16x8.extend_low_i8x16_s(q), upper = i16x8.extend_high_i8x16_s(q);
    wrong = v128.or(wrong, i8x16.eq(q, lowest));
    v128.store(target, values(i32x4.extend_low_i16x8_s(lower), zeros, scales));
    v128.store(target, values(i32x4.extend_high_i16x8_s(lower), zeros, scales), 16);
    v128.store(target, values(i32x4.extend_low_i16x8_s(upper), zeros, scales), 32);
    v128.store(target, values(i32x4.extend_high_i16x8_s(upper), zeros, scales), 48);
  }
  for (; bytes < end; bytes++, target += 4) {
    const q = load<i8>(bytes);
    wrongs |= u32(q == -128);
    store<f32>(target, <f32>q * scale + zero);
  }
  return !v128.any_true(wrong) && wrongs == 0;
}

/** The index of the first row that no encoder makes (CodecInt8.Q2), or -1. */
export function decodeInt8Rows(source: usize, rowCount: u32, width: u32, centred: bool, target: usize): i32 {
  const scales = source, zeros = source + (<usize>rowCount << 2), rowBytes = <usize>width << 2;
  let bytes = zeros + (centred ? <usize>rowCount << 2 : 0);
  for (let i: u32 = 0; i < rowCount; i++, bytes += width, target += rowBytes) {
    const scale = load<f32>(scales + (<usize>i << 2)), zero = centred ? load<f32>(zeros + (<usize>i << 2)) : <f32>0;
    if (!(scale >= reinterpret<f32>(SCALE_MIN) && scale <= SCALE_MAX) || magnitudeBits(zero) > MAGNITUDE_MAX) return i;
    if (!decodeRow(bytes, width, zero, scale, target)) return i;
  }
  return -1;
}
