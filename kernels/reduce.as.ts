// reduce — the sum of several spans, of f32, f64, or integers of 4 or 8 bytes (numbered as in elements.as.ts), and its
// copies, a chunk at a time: while a chunk is in the cache, it is summed and copied to wherever it is wanted, so that
// main memory is read once.
//
//   Reduce.D1. Sources are added in the order of their list, ((s0 + s1) + s2) + …, each sum rounded: the same bits
//       however the spans are cut.
//   Reduce.D2. All sources of a chunk are read before a target of it is written: a target may be a source.

/** What is summed at once: a few of these are in the cache of a core at the same time. */
const CHUNK: usize = 8192;

@inline function one<T>(a: usize, b: usize, c: usize, d: usize, count: u32, p: usize): T {
  let value = load<T>(a + p) + load<T>(b + p);
  if (count > 2) value += load<T>(c + p);
  if (count > 3) value += load<T>(d + p);
  return value;
}

@inline function four<T>(a: usize, b: usize, c: usize, d: usize, count: u32, p: usize): v128 {
  let value = v128.add<T>(v128.load(a + p), v128.load(b + p));
  if (count > 2) value = v128.add<T>(value, v128.load(c + p));
  if (count > 3) value = v128.add<T>(value, v128.load(d + p));
  return value;
}

/** Four vectors are computed before the first is stored (docs/decisions/0021). `count` is a constant: 2, 3 or 4. */
@inline function sumOf<T>(target: usize, a: usize, b: usize, c: usize, d: usize, count: u32, byteCount: usize): void {
  let p: usize = 0;
  for (const wide = byteCount & ~63; p < wide; p += 64) {
    const u = four<T>(a, b, c, d, count, p), v = four<T>(a, b, c, d, count, p + 16);
    const w = four<T>(a, b, c, d, count, p + 32), x = four<T>(a, b, c, d, count, p + 48);
    v128.store(target + p, u);
    v128.store(target + p, v, 16);
    v128.store(target + p, w, 32);
    v128.store(target + p, x, 48);
  }
  for (const wide = byteCount & ~15; p < wide; p += 16) v128.store(target + p, four<T>(a, b, c, d, count, p));
  for (; p < byteCount; p += sizeof<T>()) store<T>(target + p, one<T>(a, b, c, d, count, p));
}

@inline function sourceAt(sources: usize, index: u32, offset: usize): usize {
  return <usize>load<u32>(sources + (<usize>index << 2)) + offset;
}

/** Up to four at a time; those that follow are added to what there is (Reduce.D1). */
function sumChunk<T>(target: usize, sources: usize, count: u32, offset: usize, byteCount: usize): void {
  let sum = sourceAt(sources, 0, offset);
  if (count == 1) {
    if (target != sum) memory.copy(target, sum, byteCount);
    return;
  }
  let next: u32 = 1;
  while (next < count) {
    const left = count - next, b = sourceAt(sources, next, offset);
    const c = left > 1 ? sourceAt(sources, next + 1, offset) : 0, d = left > 2 ? sourceAt(sources, next + 2, offset) : 0;
    if (left == 1) sumOf<T>(target, sum, b, c, d, 2, byteCount);
    else if (left == 2) sumOf<T>(target, sum, b, c, d, 3, byteCount);
    else sumOf<T>(target, sum, b, c, d, 4, byteCount);
    sum = target;
    next += min<u32>(left, 3);
  }
}

function sumOfType(type: u32, target: usize, sources: usize, count: u32, offset: usize, byteCount: usize): void {
  if (type == 0) sumChunk<f32>(target, sources, count, offset, byteCount);
  else if (type == 1) sumChunk<f64>(target, sources, count, offset, byteCount);
  else if (type < 8) sumChunk<u32>(target, sources, count, offset, byteCount);
  else sumChunk<u64>(target, sources, count, offset, byteCount);
}

export function reduceSpans(type: u32, result: usize, sources: usize, sourceCount: u32, targets: usize, targetCount: u32, offset: usize, byteCount: usize): void {
  for (let done: usize = 0; done < byteCount; done += CHUNK) {
    const bytes = min<usize>(CHUNK, byteCount - done), from = result + done;
    sumOfType(type, from, sources, sourceCount, offset + done, bytes);
    copyTo(targets, targetCount, offset + done, from, bytes);
  }
}

function copyTo(targets: usize, targetCount: u32, offset: usize, from: usize, byteCount: usize): void {
  for (let i: u32 = 0; i < targetCount; i++) memory.copy(sourceAt(targets, i, offset), from, byteCount);
}

export function copySpan(targets: usize, targetCount: u32, offset: usize, source: usize, byteCount: usize): void {
  for (let done: usize = 0; done < byteCount; done += CHUNK) copyTo(targets, targetCount, offset + done, source + done, min<usize>(CHUNK, byteCount - done));
}
