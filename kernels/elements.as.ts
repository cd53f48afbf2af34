// elements — sums of numbers of any of the ten types (src/kernel/elements.ts has their numbers). Integers wrap around,
// so signed and unsigned ones add alike. Addresses need no alignment.

/** target[p] += source[p], 16 bytes at a time and the rest one by one. */
@inline function addRun<T>(target: usize, source: usize, byteCount: usize): void {
  let p: usize = 0;
  for (const wide = byteCount & ~15; p < wide; p += 16) v128.store(target + p, v128.add<T>(v128.load(target + p), v128.load(source + p)));
  for (; p < byteCount; p += sizeof<T>()) store<T>(target + p, load<T>(target + p) + load<T>(source + p));
}

/** Bytes of an element, as a power of two: f32, f64, then two types for each size from 1 byte up. */
@inline function shiftOf(type: u32): u32 {
  return type < 2 ? type + 2 : (type - 2) >> 1;
}

function addBytes(type: u32, target: usize, source: usize, byteCount: usize): void {
  if (type == 0) addRun<f32>(target, source, byteCount);
  else if (type == 1) addRun<f64>(target, source, byteCount);
  else if (type < 4) addRun<u8>(target, source, byteCount);
  else if (type < 6) addRun<u16>(target, source, byteCount);
  else if (type < 8) addRun<u32>(target, source, byteCount);
  else addRun<u64>(target, source, byteCount);
}

export function addElements(type: u32, target: usize, source: usize, count: u32): void {
  addBytes(type, target, source, <usize>count << shiftOf(type));
}

export function addRowElements(type: u32, rows: usize, n: u32, offset: i32, width: u32, values: usize): void {
  const byteCount = <usize>width << shiftOf(type);
  for (let i: usize = 0; i < n; i++, values += byteCount) addBytes(type, <usize>load<u32>(rows + (i << 2)) + offset, values, byteCount);
}
