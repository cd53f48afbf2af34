// run-set — a set of whole numbers from 0 up, kept as runs: its cost depends on the gaps, not on the members.
//
// Invariants:
//   RunSet.N1. Runs are half open, [from, to), not empty, rising, and never touch: one set has one list of runs.

import { assert } from "./assert.ts";

export class RunSet {
  /** from, to, from, to … (RunSet.N1). */
  #bounds: number[] = [];
  #size = 0;

  /** `runs`: from, to, from, to …, rising. */
  static of(runs: readonly number[]): RunSet {
    const set = new RunSet();
    set.addRuns(runs);
    return set;
  }

  /** How many numbers are in it. */
  get size(): number {
    return this.#size;
  }

  get runCount(): number {
    return this.#bounds.length / 2;
  }

  /** from, to, from, to … Valid until the set changes. */
  get runs(): readonly number[] {
    return this.#bounds;
  }

  /** The highest number in it; -1 of an empty set. */
  get last(): number {
    return (this.#bounds.at(-1) ?? 0) - 1;
  }

  has(number: number): boolean {
    return this.#boundsUpTo(number) % 2 === 1;
  }

  /** The lowest number from `number` on that is not in it. */
  nextAbsent(number: number): number {
    const at = this.#boundsUpTo(number);
    return at % 2 === 1 ? (this.#bounds[at] as number) : number;
  }

  /** The lowest number from `number` on that is in it; Infinity when there is none. */
  nextPresent(number: number): number {
    const at = this.#boundsUpTo(number);
    return at % 2 === 1 ? number : (this.#bounds[at] ?? Infinity);
  }

  /** The highest number below `number` that is in it; -1 when there is none. */
  lastBefore(number: number): number {
    const at = this.#boundsUpTo(number - 1);
    return at % 2 === 1 ? number - 1 : (this.#bounds[at - 1] ?? 0) - 1;
  }

  add(from: number, to: number = from + 1): void {
    assert(from < to, "a run is not empty");
    // What touches the new run becomes one with it.
    const low = this.#boundsUpTo(from - 1);
    const high = this.#boundsUpTo(to);
    const isJoinedBelow = low % 2 === 1;
    const isJoinedAbove = high % 2 === 1;
    this.#replace(low, high, [...(isJoinedBelow ? [] : [from]), ...(isJoinedAbove ? [] : [to])]);
  }

  remove(from: number, to: number = from + 1): void {
    assert(from < to, "a run is not empty");
    const low = this.#boundsBelow(from);
    const high = this.#boundsBelow(to + 1);
    const isCutBelow = low % 2 === 1;
    const isCutAbove = high % 2 === 1;
    this.#replace(low, high, [...(isCutBelow ? [from] : []), ...(isCutAbove ? [to] : [])]);
  }

  addRuns(runs: readonly number[]): void {
    for (let i = 0; i < runs.length; i += 2) this.add(runs[i] as number, runs[i + 1] as number);
  }

  removeRuns(runs: readonly number[]): void {
    for (let i = 0; i < runs.length; i += 2) this.remove(runs[i] as number, runs[i + 1] as number);
  }

  clear(): void {
    this.#bounds = [];
    this.#size = 0;
  }

  /** Its members, lowest first. */
  *[Symbol.iterator](): Generator<number> {
    for (let at = 0; at < this.#bounds.length; at += 2) {
      const to = this.#bounds[at + 1] as number;
      for (let number = this.#bounds[at] as number; number < to; number++) yield number;
    }
  }

  /** How many bounds are at most `number`: odd exactly when it is a member. */
  #boundsUpTo(number: number): number {
    return this.#boundsBelow(number + 1);
  }

  /** How many bounds are lower than `number`. */
  #boundsBelow(number: number): number {
    let low = 0;
    let high = this.#bounds.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#bounds[middle] as number) < number) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #replace(low: number, high: number, bounds: readonly number[]): void {
    const aligned = low - (low % 2);
    const end = high + (high % 2);
    this.#size -= sizeOf(this.#bounds, aligned, end);
    this.#bounds.splice(low, high - low, ...bounds);
    this.#size += sizeOf(this.#bounds, aligned, end + bounds.length - (high - low));
  }
}

function sizeOf(bounds: readonly number[], from: number, to: number): number {
  let size = 0;
  for (let at = from; at < to; at += 2) size += (bounds[at + 1] as number) - (bounds[at] as number);
  return size;
}
