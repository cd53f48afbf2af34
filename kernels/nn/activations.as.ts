// activations — ReLU and sigmoid of every float, and the gradient of their input. Gradients need the output alone, not
// the input.

import { exponential, exponentialOfOne } from "./exponential.as";

export function relu(input: usize, floatCount: u32, output: usize): void {
  const end: usize = floatCount << 2, wide: usize = (floatCount & ~3) << 2;
  let at: usize = 0;
  for (; at < wide; at += 16) v128.store(output + at, f32x4.max(v128.load(input + at), f32x4.splat(0)));
  for (; at < end; at += 4) store<f32>(output + at, max<f32>(load<f32>(input + at), 0));
}

/** What flowed to outputs above 0; `target` may be `gradient`. */
export function reluGradient(gradient: usize, output: usize, floatCount: u32, target: usize): void {
  const end: usize = floatCount << 2, wide: usize = (floatCount & ~3) << 2;
  let at: usize = 0;
  for (; at < wide; at += 16) {
    v128.store(target + at, v128.and(v128.load(gradient + at), f32x4.gt(v128.load(output + at), f32x4.splat(0))));
  }
  for (; at < end; at += 4) store<f32>(target + at, load<f32>(output + at) > 0 ? load<f32>(gradient + at) : 0);
}

export function sigmoid(input: usize, floatCount: u32, output: usize): void {
  const end: usize = floatCount << 2, wide: usize = (floatCount & ~3) << 2, one = f32x4.splat(1);
  let at: usize = 0;
  for (; at < wide; at += 16) {
    v128.store(output + at, f32x4.div(one, f32x4.add(one, exponential(f32x4.neg(v128.load(input + at))))));
  }
  for (; at < end; at += 4) store<f32>(output + at, <f32>1 / (<f32>1 + exponentialOfOne(-load<f32>(input + at))));
}

/** gradient · output · (1 - output). */
export function sigmoidGradient(gradient: usize, output: usize, floatCount: u32, target: usize): void {
  const end: usize = floatCount << 2, wide: usize = (floatCount & ~3) << 2, one = f32x4.splat(1);
  let at: usize = 0;
  for (; at < wide; at += 16) {
    const y = v128.load(output + at);
    v128.store(target + at, f32x4.mul(v128.load(gradient + at), f32x4.mul(y, f32x4.sub(one, y))));
  }
  for (; at < end; at += 4) {
    const y = load<f32>(output + at);
    store<f32>(target + at, load<f32>(gradient + at) * (y * (<f32>1 - y)));
  }
}
