// finite — finds and removes NaN and infinities in what is pushed: floats whose exponent bits are all set.
//
// Shifted left by one, so that the sign is gone, a float is finite exactly when it is below STRANGE as an unsigned
// number. So the greatest of many tells about all of them, and one comparison per chunk is enough.

const STRANGE: u32 = 0xff000000;
const CHUNK_BYTES: usize = 2048;

@inline function isStrange(address: usize): bool {
  return load<u32>(address) << 1 >= STRANGE;
}

@inline function sizes(address: usize): v128 {
  return i32x4.shl(v128.load(address), 1);
}

/** Whether a chunk, a multiple of 64 bytes, holds a NaN or an infinity. */
@inline function hasStrange(address: usize, end: usize): bool {
  let a = i32x4.splat(0), b = i32x4.splat(0);
  for (; address < end; address += 64) {
    a = i32x4.max_u(a, i32x4.max_u(sizes(address), sizes(address + 16)));
    b = i32x4.max_u(b, i32x4.max_u(sizes(address + 32), sizes(address + 48)));
  }
  return v128.any_true(i32x4.ge_u(i32x4.max_u(a, b), i32x4.splat(<i32>STRANGE)));
}

/** The greatest magnitude, without its sign; NaN or infinity when there is one of them. */
export function greatestMagnitude(address: usize, floatCount: u32): f32 {
  const end = address + (<usize>floatCount << 2);
  let a = i32x4.splat(0), b = i32x4.splat(0);
  for (const wide = address + (<usize>(floatCount & ~15) << 2); address < wide; address += 64) {
    a = i32x4.max_u(a, i32x4.max_u(sizes(address), sizes(address + 16)));
    b = i32x4.max_u(b, i32x4.max_u(sizes(address + 32), sizes(address + 48)));
  }
  a = i32x4.max_u(a, b);
  let most = max(max(<u32>i32x4.extract_lane(a, 0), <u32>i32x4.extract_lane(a, 1)), max(<u32>i32x4.extract_lane(a, 2), <u32>i32x4.extract_lane(a, 3)));
  for (; address < end; address += 4) most = max(most, load<u32>(address) << 1);
  return reinterpret<f32>(most >> 1);
}

/** The index of the first NaN or infinity, -1 when there is none. */
export function checkFinite(address: usize, floatCount: u32): i32 {
  const start = address, end = address + (<usize>floatCount << 2), wide = address + (<usize>(floatCount & ~15) << 2);
  while (address < wide) {
    const next = min(wide, address + CHUNK_BYTES);
    if (hasStrange(address, next)) break;
    address = next;
  }
  for (; address < end; address += 4) if (isStrange(address)) return <i32>((address - start) >> 2);
  return -1;
}

/** Sets every NaN and infinity to 0. Returns how many there were. */
export function zeroNonFinite(address: usize, floatCount: u32): u32 {
  const first = checkFinite(address, floatCount);
  if (first < 0) return 0;
  let count: u32 = 0;
  for (let i = <u32>first; i < floatCount; i++) {
    const at = address + (<usize>i << 2);
    if (!isStrange(at)) continue;
    store<u32>(at, 0);
    count++;
  }
  return count;
}
