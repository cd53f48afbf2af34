// pairs — the dot product of the two halves of each row, which is how matrix factorisation scores a user and an item.

/**
 * Of `samples` rows of 2 · width. Lane l adds the products l, l+4, …; the sum is (l0 + l2) + (l1 + l3), then the last 0
 * to 3.
 */
export function dotOfHalves(rows: usize, samples: u32, width: u32, output: usize): void {
  const half: usize = width << 2, wide: usize = (width & ~3) << 2;
  for (let sample: u32 = 0; sample < samples; sample++, rows += 2 * half, output += 4) {
    let lanes = f32x4.splat(0), at: usize = 0;
    for (; at < wide; at += 16) lanes = f32x4.add(lanes, f32x4.mul(v128.load(rows + at), v128.load(rows + half + at)));
    let sum = f32x4.extract_lane(lanes, 0) + f32x4.extract_lane(lanes, 2) + (f32x4.extract_lane(lanes, 1) + f32x4.extract_lane(lanes, 3));
    for (; at < half; at += 4) sum += load<f32>(rows + at) * load<f32>(rows + half + at);
    store<f32>(output, sum);
  }
}

/** Sets the gradient of the rows: each half gets the other one, times the gradient of the sample. */
export function dotOfHalvesGradient(gradient: usize, rows: usize, samples: u32, width: u32, target: usize): void {
  const half: usize = width << 2;
  for (let sample: u32 = 0; sample < samples; sample++, rows += 2 * half, target += 2 * half, gradient += 4) {
    const factor = load<f32>(gradient);
    scale(rows + half, width, factor, target);
    scale(rows, width, factor, target + half);
  }
}

@inline function scale(source: usize, floatCount: u32, factor: f32, target: usize): void {
  const end: usize = floatCount << 2, wide: usize = (floatCount & ~3) << 2, factors = f32x4.splat(factor);
  let at: usize = 0;
  for (; at < wide; at += 16) v128.store(target + at, f32x4.mul(v128.load(source + at), factors));
  for (; at < end; at += 4) store<f32>(target + at, load<f32>(source + at) * factor);
}
