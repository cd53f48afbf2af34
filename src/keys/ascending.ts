// ascending — key lists as the wire wants them: u64, strictly ascending. Looks at the halves of keys as u32, so that no BigInt is made per key.

/** Key lists up to this length are compared as BigInts: cheaper than making a view of their halves. */
const SHORT = 8;

/** Low half at 2i, high half at 2i + 1 (the platform is little-endian, which `assertLittleEndian` in node/ checks at start). */
export function halvesOf(keys: BigUint64Array): Uint32Array {
  return new Uint32Array(keys.buffer, keys.byteOffset, keys.length * 2);
}

/** Index of the first key that is not greater than the one before it; -1 if the list is strictly ascending. */
export function firstDescent(keys: BigUint64Array): number {
  if (keys.length <= SHORT) {
    for (let i = 1; i < keys.length; i++) if ((keys[i] as bigint) <= (keys[i - 1] as bigint)) return i;
    return -1;
  }
  return firstDescentOfHalves(halvesOf(keys));
}

function firstDescentOfHalves(halves: Uint32Array): number {
  let low = halves[0] as number;
  let high = halves[1] as number;
  for (let at = 2; at < halves.length; at += 2) {
    const nextLow = halves[at] as number;
    const nextHigh = halves[at + 1] as number;
    if (nextHigh < high || (nextHigh === high && nextLow <= low)) return at >> 1;
    low = nextLow;
    high = nextHigh;
  }
  return -1;
}

/** Index of the first key that is at least `bound`; the list's length if there is none. */
export function lowerBound(keys: BigUint64Array, bound: bigint): number {
  let from = 0;
  let to = keys.length;
  while (from < to) {
    const middle = (from + to) >> 1;
    if ((keys[middle] as bigint) < bound) from = middle + 1;
    else to = middle;
  }
  return from;
}
