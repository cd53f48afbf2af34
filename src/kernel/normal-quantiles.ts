// normal-quantiles — the quantiles of the normal distribution as piecewise cubics: initializers turn random bits into
// normal numbers with them.
//
// h, an integer from 1 to 2^32, stands for the upper tail probability h/2^33, and z(h) for the number that a standard
// normal variable exceeds with that probability: from 6.3 at h = 1 to 0 at 2^32. Each octave [2^e, 2^(e+1)) of h has 32
// pieces of equal length, each a cubic in t from 0 to 1 with the right value and slope at both ends (Hermite). The
// error is below 1e-8.
//
// Invariants:
//   NormalQuantiles.Q1. The code uses only + - * / and √, which round alike everywhere, so all machines compute the
//       same coefficients. Math.exp and Math.log may differ in the last bit.

import type { Arena } from "./arena.ts";

const OCTAVES = 32;
const PIECES_PER_OCTAVE = 32;
/** z, and the factors of t, t² and t³. */
const COEFFICIENTS = 4;
const QUANTILE_FLOATS: number = OCTAVES * PIECES_PER_OCTAVE * COEFFICIENTS;

const TAIL_UNIT = 2 ** 33;
const DENSITY_AT_0 = 1 / Math.sqrt(2 * Math.PI);
/** Below this, the series around 0 is the better one; above, the continued fraction. */
const SERIES_MAX = 2.5;
const FRACTION_DEPTH = 120;

/** The cubics, piece after piece: [octave][piece][coefficient]. */
export function normalQuantiles(): Float64Array {
  const table = new Float64Array(QUANTILE_FLOATS);
  let z = 0; // at the end of the piece in hand; the pieces are made from h = 2^32 downwards
  for (let piece = OCTAVES * PIECES_PER_OCTAVE - 1; piece >= 0; piece--) {
    const octaveStart = 2 ** Math.floor(piece / PIECES_PER_OCTAVE);
    const length = octaveStart / PIECES_PER_OCTAVE;
    const start = octaveStart + (piece % PIECES_PER_OCTAVE) * length;
    const before = solve(start / TAIL_UNIT, z);
    const slopeBefore = -length / TAIL_UNIT / density(before);
    const slopeAfter = -length / TAIL_UNIT / density(z);
    const rise = z - before;
    table.set([before, slopeBefore, 3 * rise - 2 * slopeBefore - slopeAfter, slopeBefore + slopeAfter - 2 * rise], piece * COEFFICIENTS);
    z = before;
  }
  return table;
}

/** The h from which on z is at most 2: where a truncated normal is cut. */
export function truncationCut(): number {
  return Math.ceil(upperTail(2) * TAIL_UNIT);
}

/** One table per arena, made for the first normal initializer. */
export class QuantileTable {
  readonly #arena: Arena;
  #address = 0;

  constructor(arena: Arena) {
    this.#arena = arena;
  }

  /** Throws ARENA_FULL. The table stays as long as the arena. */
  get address(): number {
    if (this.#address === 0) {
      this.#address = this.#arena.allocateState(QUANTILE_FLOATS * 8);
      new Float64Array(this.#arena.memory.buffer, this.#address, QUANTILE_FLOATS).set(normalQuantiles());
    }
    return this.#address;
  }
}

/** z with upperTail(z) = tail, by Newton's method from a nearby guess. */
function solve(tail: number, guess: number): number {
  let z = guess;
  for (let round = 0; round < 8; round++) z += (upperTail(z) - tail) / density(z);
  return z;
}

/** e^-x for 0 ≤ x ≤ 32: a series for x/64, squared six times. */
function expOfMinus(x: number): number {
  const small = -x / 64;
  let term = 1;
  let sum = 1;
  for (let n = 1; n <= 20; n++) {
    term = (term * small) / n;
    sum += term;
  }
  for (let n = 0; n < 6; n++) sum *= sum;
  return sum;
}

function density(z: number): number {
  return DENSITY_AT_0 * expOfMinus((z * z) / 2);
}

/** The probability that a standard normal variable exceeds z ≥ 0. */
function upperTail(z: number): number {
  if (z < SERIES_MAX) {
    let term = z;
    let sum = z;
    for (let n = 3; n < 90; n += 2) {
      term = (term * z * z) / n;
      sum += term;
    }
    return 0.5 - density(z) * sum;
  }
  let fraction = z;
  for (let n = FRACTION_DEPTH; n >= 1; n--) fraction = z + n / fraction;
  return density(z) / fraction;
}
