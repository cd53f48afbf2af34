// mix — the fixed scrambling of u64 keys that decides which part a key belongs to, on u32 halves, without BigInt.
// Equal, bit for bit, to `mixKeys` of the partition kernel. Not a secret: clients in every language must find the same
// part. The hash inside of a table is another one, keyed with a secret.
//
//   mix(x):  x ^= x >> 32;  x *= F;  x ^= x >> 32;  x *= F;  x ^= x >> 32      F = 0xd6e8feb86659fd93; a bijection

const FACTOR_LOW = 0x6659_fd93;
const FACTOR_HIGH = 0xd6e8_feb8;

/** The high u32 of the product of two u32. */
export function highProduct(a: number, b: number): number {
  const aLow = a & 0xffff;
  const aHigh = a >>> 16;
  const bLow = b & 0xffff;
  const bHigh = b >>> 16;
  const crossed = aHigh * bLow + ((aLow * bLow) >>> 16); // below 2^32
  const middle = aLow * bHigh + (crossed & 0xffff); // below 2^32
  return aHigh * bHigh + (crossed >>> 16) + (middle >>> 16);
}

/** The high half of (high, low) × F; the low half is Math.imul(low, FACTOR_LOW). */
function scaledHigh(low: number, high: number): number {
  return (highProduct(low, FACTOR_LOW) + Math.imul(high, FACTOR_LOW) + Math.imul(low, FACTOR_HIGH)) >>> 0;
}

/** The top 32 bits of mix(key), of a key given as its u32 halves: all that a placement needs. */
export function mixHigh(low: number, high: number): number {
  const first = (low ^ high) >>> 0;
  const firstHigh = scaledHigh(first, high);
  return scaledHigh((Math.imul(first, FACTOR_LOW) ^ firstHigh) >>> 0, firstHigh);
}

/**
 * 32 bits of a name: FNV-1a over its UTF-16 units, then mixed, so that names that differ in their last letter differ
 * everywhere. Callers check for collisions.
 */
export function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    hash = Math.imul(hash ^ (unit & 0xff), 0x01000193);
    hash = Math.imul(hash ^ (unit >>> 8), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
