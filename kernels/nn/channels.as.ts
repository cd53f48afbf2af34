// channels — sums and linear combinations per channel of [samples][channels][plane], which is all that batch
// normalisation needs. Sums are in f64, where products of floats are exact and cancellation does not hurt.

/**
 * sums[c] = Σ x and products[c] = Σ x · y over all samples and the channel's plane, in the order of memory; both f64.
 */
export function channelSums(x: usize, y: usize, samples: u32, channels: u32, plane: u32, sums: usize, products: usize): void {
  const row: usize = plane << 2;
  memory.fill(sums, 0, <usize>channels << 3);
  memory.fill(products, 0, <usize>channels << 3);
  for (let sample: u32 = 0; sample < samples; sample++) {
    for (let channel: usize = 0; channel < <usize>channels << 3; channel += 8, x += row, y += row) {
      let sum = load<f64>(sums + channel), product = load<f64>(products + channel);
      for (let at: usize = 0; at < row; at += 4) {
        const value = <f64>load<f32>(x + at);
        sum += value;
        product += value * <f64>load<f32>(y + at);
      }
      store<f64>(sums + channel, sum);
      store<f64>(products + channel, product);
    }
  }
}

/** target = x · a[c] + y · b[c] + shift[c], rounded after each operation. */
export function combineChannels(
  x: usize, y: usize, samples: u32, channels: u32, plane: u32, a: usize, b: usize, shift: usize, target: usize,
): void {
  const row: usize = plane << 2, wide: usize = (plane & ~3) << 2;
  for (let sample: u32 = 0; sample < samples; sample++) {
    for (let channel: usize = 0; channel < <usize>channels << 2; channel += 4, x += row, y += row, target += row) {
      const p = load<f32>(a + channel), q = load<f32>(b + channel), r = load<f32>(shift + channel);
      const ps = f32x4.splat(p), qs = f32x4.splat(q), rs = f32x4.splat(r);
      let at: usize = 0;
      for (; at < wide; at += 16) {
        const sum = f32x4.add(f32x4.mul(v128.load(x + at), ps), f32x4.mul(v128.load(y + at), qs));
        v128.store(target + at, f32x4.add(sum, rs));
      }
      for (; at < row; at += 4) store<f32>(target + at, load<f32>(x + at) * p + load<f32>(y + at) * q + r);
    }
  }
}
