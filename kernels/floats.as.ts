// floats — copying, adding and comparing one short run of f32, inlined into the loops over rows: a call of memory.copy
// costs more than a few stores. Byte counts are multiples of 4, addresses need no alignment.
//
// Four vectors are loaded before the first is stored, so that an engine that can computes them as two of twice the
// width (docs/decisions/0021).

@inline export function copyFloats(out: usize, from: usize, byteCount: usize): void {
  let p: usize = 0;
  for (const wide = byteCount & ~63; p < wide; p += 64) {
    const a = v128.load(from + p), b = v128.load(from + p, 16), c = v128.load(from + p, 32), d = v128.load(from + p, 48);
    v128.store(out + p, a);
    v128.store(out + p, b, 16);
    v128.store(out + p, c, 32);
    v128.store(out + p, d, 48);
  }
  for (const wide = byteCount & ~15; p < wide; p += 16) v128.store(out + p, v128.load(from + p));
  for (; p < byteCount; p += 4) store<u32>(out + p, load<u32>(from + p));
}

@inline export function addFloats(target: usize, from: usize, byteCount: usize): void {
  let p: usize = 0;
  for (const wide = byteCount & ~63; p < wide; p += 64) {
    const a = f32x4.add(v128.load(target + p), v128.load(from + p)), b = f32x4.add(v128.load(target + p, 16), v128.load(from + p, 16));
    const c = f32x4.add(v128.load(target + p, 32), v128.load(from + p, 32)), d = f32x4.add(v128.load(target + p, 48), v128.load(from + p, 48));
    v128.store(target + p, a);
    v128.store(target + p, b, 16);
    v128.store(target + p, c, 32);
    v128.store(target + p, d, 48);
  }
  for (const wide = byteCount & ~15; p < wide; p += 16) v128.store(target + p, f32x4.add(v128.load(target + p), v128.load(from + p)));
  for (; p < byteCount; p += 4) store<f32>(target + p, load<f32>(target + p) + load<f32>(from + p));
}

/** The greater, or the lesser, of each two. */
@inline export function extremeFloats(target: usize, from: usize, byteCount: usize, greatest: bool): void {
  let p: usize = 0;
  for (const wide = byteCount & ~15; p < wide; p += 16) {
    const a = v128.load(target + p), b = v128.load(from + p);
    v128.store(target + p, greatest ? f32x4.max(a, b) : f32x4.min(a, b));
  }
  for (; p < byteCount; p += 4) {
    const a = load<f32>(target + p), b = load<f32>(from + p);
    store<f32>(target + p, greatest ? max(a, b) : min(a, b));
  }
}
