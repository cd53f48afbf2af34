// sort-keys — sorts u64 keys, given as pairs of 32-bit words, and returns the old index of each. A radix sort from the
// lowest digit up, which skips digits that all keys share.

const DIGIT_BITS = 11;
const BUCKETS = 2 ** DIGIT_BITS;
const BUCKET_MASK = BUCKETS - 1;
const WORD_BITS = 32;

/** Keys and their old indexes, as lists side by side. */
type Columns = { readonly low: Uint32Array; readonly high: Uint32Array; readonly oldIndexes: Uint32Array };

/**
 * Sorts `words`, low and high words of keys in turn, and writes the old index of each key. Equal keys keep their order.
 */
export function sortKeys(words: Uint32Array, oldIndexes: Uint32Array): void {
  const { length: count } = oldIndexes;
  const isHighShared = differingBits(words, 1) === 0;
  let from = columnsOf(count, isHighShared);
  let to = columnsOf(count, isHighShared);
  for (let i = 0; i < count; i++) {
    from.low[i] = words[2 * i] as number;
    from.oldIndexes[i] = i;
  }
  if (!isHighShared) for (let i = 0; i < count; i++) from.high[i] = words[2 * i + 1] as number;
  const starts = new Uint32Array(BUCKETS);
  for (const word of [0, 1] as const) {
    const differing = differingBits(words, word);
    for (let shift = 0; shift < WORD_BITS; shift += DIGIT_BITS) {
      if (((differing >>> shift) & BUCKET_MASK) === 0) continue;
      const digits = word === 0 ? from.low : from.high;
      findStarts(digits, shift, starts);
      if (isHighShared) scatterLow(from, to, starts, shift);
      else scatter(from, to, digits, starts, shift);
      [from, to] = [to, from];
    }
  }
  for (let i = 0; i < count; i++) words[2 * i] = from.low[i] as number;
  if (!isHighShared) for (let i = 0; i < count; i++) words[2 * i + 1] = from.high[i] as number;
  oldIndexes.set(from.oldIndexes);
}

function columnsOf(count: number, isHighShared: boolean): Columns {
  return { low: new Uint32Array(count), high: new Uint32Array(isHighShared ? 0 : count), oldIndexes: new Uint32Array(count) };
}

/** The bits in which the low (0) or the high (1) words are not all the same. */
function differingBits(words: Uint32Array, word: 0 | 1): number {
  let all = -1;
  let any = 0;
  for (let i = word; i < words.length; i += 2) {
    all &= words[i] as number;
    any |= words[i] as number;
  }
  return words.length === 0 ? 0 : all ^ any;
}

/** Where the keys of each value of a digit begin. */
function findStarts(digits: Uint32Array, shift: number, starts: Uint32Array): void {
  starts.fill(0);
  for (let i = 0; i < digits.length; i++) starts[((digits[i] as number) >>> shift) & BUCKET_MASK]!++;
  let sum = 0;
  for (let bucket = 0; bucket < BUCKETS; bucket++) {
    const size = starts[bucket] as number;
    starts[bucket] = sum;
    sum += size;
  }
}

function scatter(from: Columns, to: Columns, digits: Uint32Array, starts: Uint32Array, shift: number): void {
  const { low, high, oldIndexes } = from;
  const { low: lowTo, high: highTo, oldIndexes: oldIndexesTo } = to;
  for (let i = 0; i < digits.length; i++) {
    const at = starts[((digits[i] as number) >>> shift) & BUCKET_MASK]!++;
    lowTo[at] = low[i] as number;
    highTo[at] = high[i] as number;
    oldIndexesTo[at] = oldIndexes[i] as number;
  }
}

/** As `scatter`, for keys whose high words are the same. */
function scatterLow({ low, oldIndexes }: Columns, to: Columns, starts: Uint32Array, shift: number): void {
  const { low: lowTo, oldIndexes: oldIndexesTo } = to;
  for (let i = 0; i < low.length; i++) {
    const digit = low[i] as number;
    const at = starts[(digit >>> shift) & BUCKET_MASK]!++;
    lowTo[at] = digit;
    oldIndexesTo[at] = oldIndexes[i] as number;
  }
}
