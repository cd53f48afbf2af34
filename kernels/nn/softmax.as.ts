// softmax — the gradient of softmax cross-entropy, and what its loss is computed from.

import { exponential, exponentialOfOne } from "./exponential.as";

/**
 * For each of `rows` of `columns` logits: gradient = (softmax - one at the label) · scale. `peaks` gets the row's
 * greatest logit, `sums` the sum of e^(logit - peak), added up from the first to the last. Labels are u32 below
 * `columns`.
 */
export function softmaxGradient(
  logits: usize, labels: usize, rows: u32, columns: u32, scale: f32, gradient: usize, peaks: usize, sums: usize,
): void {
  const row: usize = columns << 2, wide: usize = (columns & ~3) << 2;
  for (let i: u32 = 0; i < rows; i++, logits += row, gradient += row, labels += 4, peaks += 4, sums += 4) {
    let peak = load<f32>(logits), sum: f32 = 0, at: usize = 4;
    for (; at < row; at += 4) peak = max<f32>(peak, load<f32>(logits + at));
    for (at = 0; at < wide; at += 16) v128.store(gradient + at, exponential(f32x4.sub(v128.load(logits + at), f32x4.splat(peak))));
    for (; at < row; at += 4) store<f32>(gradient + at, exponentialOfOne(load<f32>(logits + at) - peak));
    for (at = 0; at < row; at += 4) sum += load<f32>(gradient + at);
    store<f32>(peaks, peak);
    store<f32>(sums, sum);
    const label: usize = load<u32>(labels) << 2;
    for (at = 0; at < row; at += 4) {
      store<f32>(gradient + at, (load<f32>(gradient + at) / sum - (at == label ? <f32>1 : <f32>0)) * scale);
    }
  }
}
