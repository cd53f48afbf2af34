// beta-powers — powers of Adam's two betas for any u32 exponent, from a table of 16 KiB: table rows that count their own steps need them for
// every update, and a loop of squarings would cost more than the update itself.
//
//   level k, digit i      [ beta1^(i·256^k) f64 | beta2^(i·256^k) f64 ]      4 levels of 256 pairs
//   beta^t                the product of one entry of each level: the digits of t in base 256, grouped as (0·1)·(2·3)

import type { Arena } from "./arena.ts";

const LEVELS = 4;
const DIGITS = 256;
export const BETA_POWERS_BYTES: number = LEVELS * DIGITS * 16;

export function writeBetaPowers(arena: Arena, address: number, beta1: number, beta2: number): void {
  const table = new Float64Array(arena.memory.buffer, address, LEVELS * DIGITS * 2);
  for (const [lane, beta] of [beta1, beta2].entries()) {
    let base = beta;
    for (let level = 0; level < LEVELS; level++) {
      let power = 1;
      for (let digit = 0; digit < DIGITS; digit++) {
        table[(level * DIGITS + digit) * 2 + lane] = power;
        power *= base;
      }
      base = power;
    }
  }
}

/** [beta1^exponent, beta2^exponent], as the kernel computes them. */
export function readBetaPowers(arena: Arena, address: number, exponent: number): readonly [number, number] {
  const table = new Float64Array(arena.memory.buffer, address, LEVELS * DIGITS * 2);
  const entry = (level: number, lane: number): number => table[(level * DIGITS + ((exponent >>> (8 * level)) & 255)) * 2 + lane]!;
  const product = (lane: number): number => entry(0, lane) * entry(1, lane) * (entry(2, lane) * entry(3, lane));
  return [product(0), product(1)];
}
