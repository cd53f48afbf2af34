// ftrl — FTRL-proximal (McMahan et al. 2013), the optimizer of sparse linear models.
//
//   n' = n + g²      z' = z + g - ((√n' - √n)/α)·w      w' = 0 where |z'| ≤ l1, else
//                                                            (sign(z')·l1 - z') / ((β + √n')/α + l2)
//
// slots 0, 1: z, n. α is the learning rate. Weight decay is l2's business and is not added to g.
//
// z' is z + (g - σ·w), in this order: near the optimum g and σ·w almost cancel, and z, which is large by then, is
// rounded once. As (z + g) - σ·w it is rounded twice, and w drifted four times as far from float64 over 100,000 steps.

import { clipped, isBare, read, splat, write } from "./lanes.as";
import { Hyper, Job } from "./job.as";

@inline function ftrlLanes(
  to: usize, from: usize, gradient: usize, linear: usize, squares: usize, lanes: u32, bare: bool,
  scale: v128, low: v128, high: v128, inverseAlpha: v128, beta: v128, l1: v128, l2: v128,
): void {
  const g = clipped(read(gradient, lanes), bare, scale, low, high), before = read(squares, lanes), n = f32x4.add(before, f32x4.mul(g, g));
  const root = f32x4.sqrt(n), sigma = f32x4.mul(f32x4.sub(root, f32x4.sqrt(before)), inverseAlpha);
  const z = f32x4.add(read(linear, lanes), f32x4.sub(g, f32x4.mul(sigma, read(from, lanes)))), size = f32x4.abs(z);
  write(squares, n, lanes);
  write(linear, z, lanes);
  // The sign bit of z beside l1, which has none: sign(z)·l1.
  const shrunk = f32x4.sub(v128.or(v128.andnot(z, size), l1), z);
  const value = f32x4.div(shrunk, f32x4.add(f32x4.mul(f32x4.add(beta, root), inverseAlpha), l2));
  write(to, v128.and(value, f32x4.gt(size, l1)), lanes);
}

@inline function ftrlSpans(job: Job, hyper: Hyper, bare: bool): void {
  const bytes = <usize>job.width << 2, delta = <usize>job.sourceDelta, stride = <usize>job.slotStride;
  const scale = splat(hyper.gradientScale), high = splat(hyper.clipValue), low = f32x4.neg(high);
  const inverseAlpha = splat(1.0 / hyper.learningRate), beta = splat(hyper.ftrlBeta), l1 = splat(hyper.l1), l2 = splat(hyper.l2);
  let g: usize = job.gradients;
  for (let i: u32 = 0; i < job.rowCount; i++) {
    const row = job.rowAt(i);
    let w = job.valuesAt(row), z = job.slotsAt(row);
    const end = w + bytes;
    for (const quad = w + (bytes & ~15); w < quad; w += 16, z += 16, g += 16) {
      ftrlLanes(w, w + delta, g, z, z + stride, 4, bare, scale, low, high, inverseAlpha, beta, l1, l2);
    }
    if (w < end) {
      ftrlLanes(w, w + delta, g, z, z + stride, <u32>(end - w) >> 2, bare, scale, low, high, inverseAlpha, beta, l1, l2);
      g += end - w;
    }
  }
}

export function ftrlRows(job: Job, hyper: Hyper): void {
  if (isBare(hyper, false)) ftrlSpans(job, hyper, true);
  else ftrlSpans(job, hyper, false);
}
