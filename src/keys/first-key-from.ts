// first-key-from — finds the first key of a list that a bounded table has no row for.

const WORD = 2 ** 32;

/** The index of the first key that is at least `bound` (up to 2^53); -1 if there is none. Keys are little-endian. */
export function firstKeyFrom(bound: number, keys: BigUint64Array): number {
  const words = new Uint32Array(keys.buffer, keys.byteOffset, keys.length * 2);
  const high = Math.floor(bound / WORD);
  const low = bound % WORD;
  for (let i = 0; i < words.length; i += 2) {
    const above = words[i + 1] as number;
    if (above > high || (above === high && (words[i] as number) >= low)) return i / 2;
  }
  return -1;
}
