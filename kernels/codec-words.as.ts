// codec-words — payloads of which most 32-bit words are 0: a bit for each word, then the words that are not.
// spec/codecs.md, §5.
//
//   packed     [ mask: bit i % 8 of byte i / 8 says that word i is not 0; whole u64 | those words, in order ]
//
//   CodecWords.W1. Packing writes no more than it promises: 64 words are counted before any of them is copied.
//   CodecWords.W2. Unpacking counts the mask first, and touches nothing when the words are not as many: it reads only
//       `byteCount` bytes.

/** Four bits: which of four words are not 0. */
@inline function occupied(words: usize): u32 {
  return i32x4.bitmask(i32x4.ne(v128.load(words), i32x4.splat(0)));
}

@inline function maskBytes(wordCount: u32): usize {
  return (<usize>(wordCount + 63) >> 6) << 3;
}

/** The mask of 64 words. */
@inline function maskOf(words: usize): u64 {
  let bits: u64 = 0;
  for (let p: usize = 0; p < 256; p += 16) bits |= <u64>occupied(words + p) << <u64>(p >> 2);
  return bits;
}

/** The mask of the fewer than 64 words at the end. */
function maskOfRest(words: usize, count: u32): u64 {
  let bits: u64 = 0;
  for (let i: u32 = 0; i < count; i++) bits |= <u64>(load<u32>(words + (<usize>i << 2)) != 0) << <u64>i;
  return bits;
}

/** See CodecKernels.packWords. */
export function packWords(source: usize, wordCount: u32, wordsMax: u32, target: usize): u32 {
  const words = target + maskBytes(wordCount), end = words + (<usize>wordsMax << 2);
  let out = words;
  for (let mask = target; mask < words; mask += 8, source += 256, wordCount -= 64) {
    let bits = wordCount >= 64 ? maskOf(source) : maskOfRest(source, wordCount);
    store<u64>(mask, bits);
    if (out + (<usize>popcnt(bits) << 2) > end) return 0; // CodecWords.W1
    for (; bits != 0; bits &= bits - 1, out += 4) store<u32>(out, load<u32>(source + (<usize>ctz(bits) << 2)));
  }
  return <u32>(out - target);
}

/** See CodecKernels.unpackWords. */
export function unpackWords(source: usize, byteCount: u32, wordCount: u32, target: usize): i32 {
  const masks = maskBytes(wordCount);
  if (masks > <usize>byteCount) return 1;
  let count: u64 = 0;
  for (let p: usize = 0; p < masks; p += 8) count += popcnt(load<u64>(source + p));
  const used = wordCount & 63;
  if (used != 0 && load<u64>(source + masks - 8) >> <u64>used != 0) return 1;
  if (<u64>masks + (count << 2) != <u64>byteCount) return 1; // CodecWords.W2
  memory.fill(target, 0, <usize>wordCount << 2);
  let words = source + masks;
  for (let p: usize = 0; p < masks; p += 8, target += 256) {
    for (let bits = load<u64>(source + p); bits != 0; bits &= bits - 1, words += 4) store<u32>(target + (<usize>ctz(bits) << 2), load<u32>(words));
  }
  return 0;
}
