// codec-top-k — picks the k largest of gradient + residual by magnitude, and keeps the rest as the new residual: error
// feedback.
//
// Most sums are far below the k-th largest. So a sample tells a floor that probably a few more than k reach; those that
// do are listed, and the k-th largest magnitude of the list is found exactly, by its bits: a histogram of the upper 11,
// then of the next 10 among those that share them, then of the last 10. If fewer than k reach the floor, all are
// listed. Nothing is changed before the last pass, which divides the sums.
//
//   CodecTopK.T1. Chosen are the k sums of the highest magnitude; among equal ones those of lower index. They are
//       listed by index.
//   CodecTopK.T2. Each sum is rounded once, to f32, and then either sent or kept, whole.
//   CodecTopK.T3. A sum that is not finite is found before anything changed.

import { held } from "./held-constant.as";

const UPPER_SHIFT: i32 = 20;
const UPPER_COUNT: u32 = 2048;
const LOWER_BITS: i32 = 10;
const LOWER_COUNT: u32 = 1024;
const INFINITY_BITS: u32 = 0x7f80_0000;
const HISTOGRAM_BYTES: usize = UPPER_COUNT << 2;
/**
 * If more than one of so many sums is sent, most quads have one, and asking whether they do would be guessed wrong too
 * often.
 */
const SPARSE_SHARE: u32 = 20;
/** Of so many bytes of sums, 16 are sampled. */
const SAMPLE_STRIDE: usize = 1024;
/** How many sampled sums more than expected are asked for, so that a small sample does not mislead. */
const SAMPLE_SLACK: u32 = 8;

@inline function sumAt(gradient: usize, residual: usize, at: usize): f32 {
  return load<f32>(gradient + at) + load<f32>(residual + at);
}

@inline function magnitudeBits(sum: f32): u32 {
  return reinterpret<u32>(sum) & 0x7fff_ffff;
}

@inline function quadAt(gradient: usize, residual: usize, at: usize): v128 {
  return f32x4.add(v128.load(gradient + at), v128.load(residual + at));
}

@inline function countIn(histogram: usize, bucket: u32): void {
  const cell = histogram + (<usize>bucket << 2);
  store<u32>(cell, load<u32>(cell) + 1);
}

/**
 * The bucket of the `rank`-th largest; how many of those in it are among the `rank` largest is left in the histogram's
 * first cell.
 */
function bucketOf(histogram: usize, bucketCount: u32, rank: u32): u32 {
  let bucket = bucketCount - 1;
  for (let inside = load<u32>(histogram + (<usize>bucket << 2)); inside < rank; inside = load<u32>(histogram + (<usize>bucket << 2))) {
    rank -= inside;
    bucket--;
  }
  store<u32>(histogram, rank);
  return bucket;
}

/**
 * The `rank`-th largest of a list of magnitudes; how many that equal it are among the `rank` largest is left in the
 * histogram's first cell.
 */
function largest(list: usize, count: u32, rank: u32, histogram: usize): u32 {
  const end = list + (<usize>count << 2);
  memory.fill(histogram, 0, HISTOGRAM_BYTES);
  for (let at = list; at < end; at += 4) countIn(histogram, load<u32>(at) >> UPPER_SHIFT);
  let prefix = bucketOf(histogram, UPPER_COUNT, rank);
  for (let shift = UPPER_SHIFT - LOWER_BITS; shift >= 0; shift -= LOWER_BITS) {
    rank = load<u32>(histogram);
    memory.fill(histogram, 0, LOWER_COUNT << 2);
    for (let at = list; at < end; at += 4) {
      const bits = load<u32>(at);
      if (bits >> (shift + LOWER_BITS) == prefix) countIn(histogram, (bits >> shift) & (LOWER_COUNT - 1));
    }
    prefix = (prefix << LOWER_BITS) | bucketOf(histogram, LOWER_COUNT, rank);
  }
  return prefix;
}

/**
 * A magnitude that half as many again as are asked for probably reach; 0 when the sample would be too small to tell.
 */
function sampleFloor(gradient: usize, residual: usize, byteCount: usize, keepCount: u32, list: usize, histogram: usize): u32 {
  const sampleCount = <u32>(byteCount / SAMPLE_STRIDE) << 2, mask = held(0x7fff_ffff);
  // 1.5 × keepCount × sampleCount / floatCount.
  const rank = <u32>(<u64>keepCount * 3 * sampleCount / (<u64>byteCount >> 1)) + SAMPLE_SLACK;
  if (rank > sampleCount) return 0;
  let to = list;
  for (let at: usize = 0; at + SAMPLE_STRIDE <= byteCount; at += SAMPLE_STRIDE, to += 16) {
    v128.store(to, v128.and(quadAt(gradient, residual, at), mask));
  }
  return largest(list, sampleCount, rank, histogram);
}

/** Writes those of four magnitudes that reach the floor, without a branch; returns where the list ends then. */
@inline function listQuad(bits: v128, floor: u32, to: usize): usize {
  const lower = i64x2.extract_lane(bits, 0), upper = i64x2.extract_lane(bits, 1);
  store<u32>(to, <u32>lower);
  to += <usize>(<u32>lower >= floor) << 2;
  store<u32>(to, <u32>(lower >> 32));
  to += <usize>(<u32>(lower >> 32) >= floor) << 2;
  store<u32>(to, <u32>upper);
  to += <usize>(<u32>upper >= floor) << 2;
  store<u32>(to, <u32>(upper >> 32));
  return to + (<usize>(<u32>(upper >> 32) >= floor) << 2);
}

/** Lists the magnitudes that reach the floor; returns how many. The list has room for one more than all. */
function listFrom(gradient: usize, residual: usize, byteCount: usize, floor: u32, list: usize, isDense: bool): u32 {
  const mask = held(0x7fff_ffff), below = i32x4.splat(floor - 1);
  let to = list, at: usize = 0;
  for (const wide = byteCount & ~31; at < wide; at += 32) {
    const first = v128.and(quadAt(gradient, residual, at), mask), second = v128.and(quadAt(gradient, residual, at + 16), mask);
    if (!isDense && !v128.any_true(i32x4.gt_s(i32x4.max_u(first, second), below))) continue;
    to = listQuad(second, floor, listQuad(first, floor, to));
  }
  for (; at < byteCount; at += 4) {
    const bits = magnitudeBits(sumAt(gradient, residual, at));
    store<u32>(to, bits);
    to += <usize>(bits >= floor) << 2;
  }
  return <u32>((to - list) >> 2);
}

/** The index of the first sum that is not finite, -1 when all that are listed are. */
function firstNotFinite(gradient: usize, residual: usize, list: usize, count: u32): i32 {
  let highest: u32 = 0;
  for (const end = list + (<usize>count << 2); list < end; list += 4) highest = max(highest, load<u32>(list));
  if (highest < INFINITY_BITS) return -1;
  let at: usize = 0;
  while (magnitudeBits(sumAt(gradient, residual, at)) < INFINITY_BITS) at += 4;
  return <i32>(at >> 2);
}

/**
 * Writes four indices and sums side by side, without a branch, and lets only those stay that are sent; returns how many
 * are sent so far.
 */
@inline function sendQuad(sums: v128, isSent: v128, at: usize, indices: usize, values: usize, sent: u32): u32 {
  const lanes = <u32>i32x4.bitmask(isSent), lower = i64x2.extract_lane(sums, 0), upper = i64x2.extract_lane(sums, 1);
  const index = at >> 2;
  store<u64>(indices + (<usize>sent << 3), index);
  store<u32>(values + (<usize>sent << 2), <u32>lower);
  sent += lanes & 1;
  store<u64>(indices + (<usize>sent << 3), index + 1);
  store<u32>(values + (<usize>sent << 2), <u32>(lower >> 32));
  sent += (lanes >> 1) & 1;
  store<u64>(indices + (<usize>sent << 3), index + 2);
  store<u32>(values + (<usize>sent << 2), <u32>upper);
  sent += (lanes >> 2) & 1;
  store<u64>(indices + (<usize>sent << 3), index + 3);
  store<u32>(values + (<usize>sent << 2), <u32>(upper >> 32));
  return sent + (lanes >> 3);
}

/** Sends or keeps one sum; returns how many are sent so far. */
@inline function sendOne(sum: f32, isSent: bool, residual: usize, at: usize, indices: usize, values: usize, sent: u32): u32 {
  store<f32>(residual + at, isSent ? 0 : sum);
  if (!isSent) return sent;
  store<u64>(indices + (<usize>sent << 3), at >> 2);
  store<f32>(values + (<usize>sent << 2), sum);
  return sent + 1;
}

/** Sends or keeps every sum: what is above the threshold, and the first `equals` of those at it, are sent. */
function divide(
  gradient: usize, residual: usize, byteCount: usize, threshold: u32, equals: u32, indices: usize, values: usize, isDense: bool,
): void {
  const thresholds = i32x4.splat(threshold), below = i32x4.splat(threshold - 1), mask = held(0x7fff_ffff);
  let sent: u32 = 0;
  for (let at: usize = 0; at < byteCount; ) {
    let next = at + 4;
    if (at + 16 <= byteCount) {
      const sums = quadAt(gradient, residual, at), bits = v128.and(sums, mask);
      next = at + 16;
      if (!isDense && !v128.any_true(i32x4.gt_s(bits, below))) {
        v128.store(residual + at, sums);
        at = next;
        continue;
      }
      if (!v128.any_true(i32x4.eq(bits, thresholds))) {
        const isSent = i32x4.gt_s(bits, thresholds);
        v128.store(residual + at, v128.andnot(sums, isSent));
        sent = sendQuad(sums, isSent, at, indices, values, sent);
        at = next;
        continue;
      }
    }
    for (; at < next; at += 4) { // the end of the sums, or one that equals the threshold
      const sum = sumAt(gradient, residual, at), bits = magnitudeBits(sum), isEqual = bits == threshold && equals != 0;
      sent = sendOne(sum, bits > threshold || isEqual, residual, at, indices, values, sent);
      equals -= u32(isEqual);
    }
  }
}

/**
 * -1, or the index of the first sum that is not finite: then nothing was changed. Both lists have room for one more.
 */
export function selectTopK(
  gradient: usize, residual: usize, floatCount: u32, keepCount: u32, indices: usize, values: usize, scratch: usize,
): i32 {
  const byteCount = <usize>floatCount << 2, list = scratch + HISTOGRAM_BYTES, isDense = keepCount > floatCount / SPARSE_SHARE;
  const floor = sampleFloor(gradient, residual, byteCount, keepCount, list, scratch);
  let count = listFrom(gradient, residual, byteCount, floor, list, isDense);
  if (count < keepCount) count = listFrom(gradient, residual, byteCount, 0, list, true);
  const wrong = firstNotFinite(gradient, residual, list, count); // CodecTopK.T3
  if (wrong >= 0) return wrong;
  const threshold = largest(list, count, keepCount, scratch);
  divide(gradient, residual, byteCount, threshold, load<u32>(scratch), indices, values, isDense);
  return -1;
}

/** target[indices[i]] = values[i]. */
export function scatterFloats(indices: usize, count: u32, values: usize, target: usize): void {
  for (const end = indices + (<usize>count << 3); indices < end; indices += 8, values += 4) {
    store<u32>(target + (<usize>load<u32>(indices) << 2), load<u32>(values));
  }
}
