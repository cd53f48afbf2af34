// key-space — the keys of a case: which exist, which server owns them, and which of them a request carries.
// Deterministic: every worker of a case derives the same choices, so that pushes can be counted per choice instead of
// per key.

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
  /** Every key of the case, ascending. */
  readonly #keys: BigUint64Array;
  readonly #nextFresh: () => Uint32Array;
  /** What requests carry in turn: everything, or random choices. */
  readonly requestSets: readonly KeySet[];

  /** A case that mixes pushes and pulls has other keys on each worker, so that every worker knows what it must read. */
  constructor(benchCase: BenchCase, ranges: readonly KeyRange[], workerRank = 0) {
    const { keyCount, universeKeyCount, choice, direction, isFresh } = benchCase;
    assert(universeKeyCount % ranges.length === 0, "every server owns an equal share of a case's keys");
    this.#keys = universeKeys(benchCase, ranges, direction === "mix" ? workerRank : 0);
    const draw = (choice === "zipf" ? zipfChoices : randomChoices)(keyCount, universeKeyCount);
    const isEverything = keyCount === universeKeyCount || isFresh;
    this.requestSets = isEverything ? [this.slice(0, keyCount)] : Array.from({ length: RANDOM_SET_COUNT }, () => this.#set(draw()));
    this.#nextFresh = universeKeyCount - keyCount > keyCount ? draw : neighbourChoices(keyCount, universeKeyCount);
  }

  get keyCount(): number {
    return this.#keys.length;
  }

  /** A list in memory of its own that differs from those before; the keys of a lone key's list cannot differ. */
  freshSet(): KeySet {
    return this.#set(this.#nextFresh());
  }

  /** The keys at positions `from` up to, not including, `to`. */
  slice(from: number, to: number): KeySet {
    return this.#set(Uint32Array.from({ length: to - from }, (_, i) => from + i));
  }

  /** The whole universe, in pieces of `chunkKeyCount` keys; the last may be smaller. */
  *chunks(chunkKeyCount: number): Generator<KeySet> {
    assert(chunkKeyCount > 0, "a chunk holds at least one key");
    for (let from = 0; from < this.keyCount; from += chunkKeyCount) {
      yield this.slice(from, Math.min(from + chunkKeyCount, this.keyCount));
    }
  }

  #set(indices: Uint32Array): KeySet {
    const keys = new BigUint64Array(indices.length);
    for (let i = 0; i < indices.length; i++) keys[i] = this.#keys[indices[i]!]!;
    return { indices, keys };
  }
}

/** Ascending: the first share of the universe lies in the first server's range, and so on. */
function universeKeys(
  { universeKeyCount, firstKeyOffset, keyLayout }: BenchCase,
  ranges: readonly KeyRange[],
  rank: number,
): BigUint64Array {
  const keysPerServer = universeKeyCount / ranges.length;
  const keys = new BigUint64Array(universeKeyCount);
  const random = new Random(SEED + firstKeyOffset + rank);
  for (const [server, { begin, end }] of ranges.entries()) {
    const own = keys.subarray(server * keysPerServer, (server + 1) * keysPerServer);
    const first = begin + BigInt(firstKeyOffset + rank * universeKeyCount);
    for (let i = 0; i < keysPerServer; i++) {
      own[i] =
        keyLayout === "dense" ? first + BigInt(i) : begin + (((BigInt(random.uint32()) << 32n) | BigInt(random.uint32())) % (end - begin));
    }
    own.sort();
  }
  assert(
    keys.every((key, i) => i === 0 || keys[i - 1]! < key),
    "the keys of a case are distinct",
  );
  return keys;
}

/** Neighbours from anywhere on, never twice in a row from the same place. */
function neighbourChoices(keyCount: number, universeKeyCount: number): () => Uint32Array {
  let from = 0;
  return () => {
    from = (from + 1) % (universeKeyCount - keyCount + 1);
    return Uint32Array.from({ length: keyCount }, (_, i) => from + i);
  };
}

/** Each choice is the start of a shuffle, sorted: distinct positions, all equally likely. */
function randomChoices(keyCount: number, universeKeyCount: number): () => Uint32Array {
  const random = new Random(SEED);
  const positions = Uint32Array.from({ length: universeKeyCount }, (_, i) => i);
  return () => {
    for (let i = 0; i < keyCount; i++) {
      const other = i + random.below(universeKeyCount - i);
      const taken = positions[other]!;
      positions[other] = positions[i]!;
      positions[i] = taken;
    }
    return positions.slice(0, keyCount).sort();
  };
}

/**
 * Draws by Zipf: position i with a weight of (i + 1)^-1.05, but scattered over the universe. In the order they were
 * drawn, duplicates and all.
 */
function zipfChoices(keyCount: number, universeKeyCount: number): () => Uint32Array {
  const random = new Random(SEED);
  const draw = zipfDraws(random, { positionCount: universeKeyCount, exponent: ZIPF_EXPONENT });
  const positions = shuffledPositions(random, universeKeyCount);
  return () => Uint32Array.from({ length: keyCount }, () => positions[draw()]!);
}
