// ownership — whether all keys of a list are a server's own. src/keys/placement.ts says who owns what;
// src/server/ownership.ts asks.
//
//   owned      u8 for each part: 1 if it is the server's, 0 otherwise
//   part       the top bits of mix(key), as in partition.as.ts

import { mix } from "./partition.as";

/** Keys whose bits are put together before anything is decided: no branch for each key. */
const STRIDE: u32 = 64;

/** The index of the first key whose part is not owned; n when all are. */
export function firstForeignKey(keys: usize, n: u32, owned: usize, partBits: u32): u32 {
  const shift = 64 - <u64>partBits;
  for (let from: u32 = 0; from < n; from += STRIDE) {
    const to = min(n, from + STRIDE);
    let all: u32 = 1;
    for (let i = from; i < to; i++) all &= load<u8>(owned + <usize>(mix(load<u64>(keys + (<usize>i << 3))) >> shift));
    if (all) continue;
    for (let i = from; i < to; i++) if (!load<u8>(owned + <usize>(mix(load<u64>(keys + (<usize>i << 3))) >> shift))) return i;
  }
  return n;
}
