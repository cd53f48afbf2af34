// vector — arithmetic on spans of f32 and of bytes, and the check of key lists. Every element is rounded as the plain
// reference rounds it: no fused multiply-add, no reordered sums.

/** Floats below this index are done 16 at a time. */
@inline function wideEnd(start: usize, floatCount: u32): usize {
  return start + (<usize>(floatCount & ~15) << 2);
}

export function add(target: usize, source: usize, floatCount: u32): void {
  sum(target, target, source, floatCount);
}

export function sum(target: usize, left: usize, right: usize, floatCount: u32): void {
  const end = target + (<usize>floatCount << 2);
  for (const wide = wideEnd(target, floatCount); target < wide; target += 64, left += 64, right += 64) {
    v128.store(target, f32x4.add(v128.load(left), v128.load(right)));
    v128.store(target, f32x4.add(v128.load(left, 16), v128.load(right, 16)), 16);
    v128.store(target, f32x4.add(v128.load(left, 32), v128.load(right, 32)), 32);
    v128.store(target, f32x4.add(v128.load(left, 48), v128.load(right, 48)), 48);
  }
  for (; target < end; target += 4, left += 4, right += 4) store<f32>(target, load<f32>(left) + load<f32>(right));
}

export function axpy(target: usize, source: usize, scale: f32, floatCount: u32): void {
  const end = target + (<usize>floatCount << 2), scales = f32x4.splat(scale);
  for (const wide = wideEnd(target, floatCount); target < wide; target += 64, source += 64) {
    v128.store(target, f32x4.add(v128.load(target), f32x4.mul(scales, v128.load(source))));
    v128.store(target, f32x4.add(v128.load(target, 16), f32x4.mul(scales, v128.load(source, 16))), 16);
    v128.store(target, f32x4.add(v128.load(target, 32), f32x4.mul(scales, v128.load(source, 32))), 32);
    v128.store(target, f32x4.add(v128.load(target, 48), f32x4.mul(scales, v128.load(source, 48))), 48);
  }
  for (; target < end; target += 4, source += 4) store<f32>(target, load<f32>(target) + scale * load<f32>(source));
}

export function copy(target: usize, source: usize, byteCount: u32): void {
  memory.copy(target, source, byteCount);
}

export function zero(target: usize, byteCount: u32): void {
  memory.fill(target, 0, byteCount);
}

/** The index of the first key that is not greater than its predecessor, -1 when there is none. */
export function checkAscending(keys: usize, keyCount: u32): i32 {
  if (keyCount == 0) return -1;
  let previous = load<u64>(keys);
  for (let i: u32 = 1; i < keyCount; i++) {
    const key = load<u64>(keys + (<usize>i << 3));
    if (key <= previous) return i;
    previous = key;
  }
  return -1;
}
