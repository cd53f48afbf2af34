// random — a small seeded generator (32-bit xorshift-multiply counter): one seed gives one run on every machine. For
// simulation, back-off jitter and tests; not for secrets. `randomToken` is unseeded.

/** A seeded generator: one seed, one sequence, on every machine. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** A whole number in [0, 2^32). */
  uint32(): number {
    this.#state = (this.#state + 0x9e3779b9) >>> 0;
    let x = this.#state;
    x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
    x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
    return (x ^ (x >>> 15)) >>> 0;
  }

  /** A number in [0, 1). */
  fraction(): number {
    return this.uint32() / 2 ** 32;
  }

  /** A whole number in [0, bound). */
  below(bound: number): number {
    return Math.floor(this.fraction() * bound);
  }

  /** True with this probability. */
  chance(probability: number): boolean {
    return this.fraction() < probability;
  }
}

const TOKEN_BYTES = 16;

/** 128 random bits as 32 hexadecimal digits. Not `crypto.randomUUID`, which pages over plain HTTP do not have. */
export function randomToken(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(TOKEN_BYTES)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
