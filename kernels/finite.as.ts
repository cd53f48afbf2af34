// finite — finds and removes NaN and infinities in what is pushed.

const EXPONENT: i32 = 0x7f800000;

/** All bits of each lane whose exponent is full: NaN, +Infinity, -Infinity. */
@inline function strange(x: v128): v128 {
  const exponent = i32x4.splat(EXPONENT);
  return i32x4.eq(v128.and(x, exponent), exponent);
}

@inline function isStrange(address: usize): bool {
  return (load<i32>(address) & EXPONENT) == EXPONENT;
}

/** The index of the first NaN or infinity, -1 when there is none. */
export function checkFinite(address: usize, floatCount: u32): i32 {
  const start = address, end = address + (<usize>floatCount << 2);
  for (const wide = address + (<usize>(floatCount & ~15) << 2); address < wide; address += 64) {
    const first = v128.or(strange(v128.load(address)), strange(v128.load(address, 16)));
    const second = v128.or(strange(v128.load(address, 32)), strange(v128.load(address, 48)));
    if (v128.any_true(v128.or(first, second))) break;
  }
  for (; address < end; address += 4) if (isStrange(address)) return <i32>((address - start) >> 2);
  return -1;
}

/** Sets every NaN and infinity to 0. Returns how many there were. */
export function zeroNonFinite(address: usize, floatCount: u32): u32 {
  const end = address + (<usize>floatCount << 2);
  let count: u32 = 0;
  for (const quads = address + (<usize>(floatCount & ~3) << 2); address < quads; address += 16) {
    const x = v128.load(address), mask = strange(x);
    if (!v128.any_true(mask)) continue;
    v128.store(address, v128.andnot(x, mask));
    count += popcnt(i32x4.bitmask(mask));
  }
  for (; address < end; address += 4) {
    if (!isStrange(address)) continue;
    store<u32>(address, 0);
    count++;
  }
  return count;
}
