// key-space — the keys of a case: which exist, which server owns them, and which of them a request carries.
// Deterministic: every worker of a case derives the same choices, so that pushes can be counted per choice instead of per key.

import { assert } from "../src/base/assert.ts";
import { Random } from "../src/base/random.ts";
import type { BenchCase } from "./cases.ts";
import { shuffledPositions, zipfDraws } from "./zipf.ts";

export type KeyRange = { readonly begin: bigint; readonly end: bigint };

/** Keys that travel together: their positions in the universe, ascending, and the keys themselves in the same order. */
export type KeySet = { readonly indices: Uint32Array; readonly keys: BigUint64Array };

const RANDOM_SET_COUNT = 16;
const SEED = 20_240_607;
const ZIPF_EXPONENT = 1.05;

export class KeySpace {
  readonly #keyCount: number;
  readonly #ranges: readonly KeyRange[];
  readonly #firstKeyOffset: bigint;
  /** What requests carry in turn: everything, or random choices. */
  readonly requestSets: readonly KeySet[];

  constructor({ keyCount, universeKeyCount, firstKeyOffset, choice }: BenchCase, ranges: readonly KeyRange[]) {
    assert(universeKeyCount % ranges.length === 0, "every server owns an equal share of a case's keys");
    this.#keyCount = universeKeyCount;
    this.#ranges = ranges;
    this.#firstKeyOffset = BigInt(firstKeyOffset);
    this.requestSets =
      keyCount === universeKeyCount
        ? [this.slice(0, universeKeyCount)]
        : (choice === "zipf" ? zipfChoices : randomChoices)(keyCount, universeKeyCount).map((indices) => this.#set(indices));
  }

  get keyCount(): number {
    return this.#keyCount;
  }

  /** The keys at positions `from` up to, not including, `to`. */
  slice(from: number, to: number): KeySet {
    return this.#set(Uint32Array.from({ length: to - from }, (_, i) => from + i));
  }

  /** The whole universe, in pieces of `chunkKeyCount` keys; the last may be smaller. */
  *chunks(chunkKeyCount: number): Generator<KeySet> {
    assert(chunkKeyCount > 0, "a chunk holds at least one key");
    for (let from = 0; from < this.#keyCount; from += chunkKeyCount) {
      yield this.slice(from, Math.min(from + chunkKeyCount, this.#keyCount));
    }
  }

  #set(indices: Uint32Array): KeySet {
    return { indices, keys: BigUint64Array.from(indices, (index) => this.#key(index)) };
  }

  /** Ascending in `index`: the first share of the universe lies in the first server's range, and so on. */
  #key(index: number): bigint {
    const keysPerServer = this.#keyCount / this.#ranges.length;
    const server = Math.floor(index / keysPerServer);
    return this.#ranges[server]!.begin + this.#firstKeyOffset + BigInt(index - server * keysPerServer);
  }
}

/** Each choice is the start of a shuffle, sorted: distinct positions, all equally likely. */
function randomChoices(keyCount: number, universeKeyCount: number): Uint32Array[] {
  const random = new Random(SEED);
  const positions = Uint32Array.from({ length: universeKeyCount }, (_, i) => i);
  return Array.from({ length: RANDOM_SET_COUNT }, () => {
    for (let i = 0; i < keyCount; i++) {
      const other = i + random.below(universeKeyCount - i);
      const taken = positions[other]!;
      positions[other] = positions[i]!;
      positions[i] = taken;
    }
    return positions.slice(0, keyCount).sort();
  });
}

/** Draws by Zipf: position i with a weight of (i + 1)^-1.05, but scattered over the universe. In the order they were drawn, duplicates and all. */
function zipfChoices(keyCount: number, universeKeyCount: number): Uint32Array[] {
  const random = new Random(SEED);
  const draw = zipfDraws(random, { positionCount: universeKeyCount, exponent: ZIPF_EXPONENT });
  const positions = shuffledPositions(random, universeKeyCount);
  return Array.from({ length: RANDOM_SET_COUNT }, () => Uint32Array.from({ length: keyCount }, () => positions[draw()]!));
}
