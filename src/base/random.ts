// random — a small seeded generator (32-bit xorshift-multiply counter): the same seed gives the same run on every machine.
// For simulation, back-off jitter and tests; not for secrets.

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
