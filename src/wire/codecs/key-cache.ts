// key-cache — a repeated key list travels once (OSDI'14, §3.3). The sender names a list that the receiver is known to hold; a receiver that
// does not hold it any more answers UNKNOWN_KEY_LIST, and the sender sends the keys. (The original aborts there, and takes a checksum of the
// first 2 KB of a list for its name.)
//
// One pair for each direction of each conversation: what one peer sends is never taken for another's list.
//
// Invariants:
//   C1. A list is named only after the receiver acknowledged a message that told it to remember it.
//   C2. A receiver answers a name with exactly the keys it was given under that name, checked against the name when they came, or not at all.
//   C3. Both sides are bounded; the list that was unused the longest goes first. A list in use stays in memory until it is released.
//   C4. A list that a receiver did not hold twice is not named again: lists that chase each other out of its memory must not cost a round
//       trip each.

import { assert } from "../../base/assert.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import { KEY_BYTES } from "../kv-message.ts";
import { type KeyListName, nameOfKeys } from "./key-codec.ts";
import { type CodecContext, malformed } from "./value-codec.ts";

/** Shorter lists are not worth a name. */
export const NAMED_KEYS_MIN = 16;

const MISSES_MAX = 2;

type SentList = { readonly keyCount: number; isHeld: boolean; misses: number };

/** The sender's side: what one receiver is known to hold. */
export class SentKeyLists {
  readonly #listCountMax: number;
  readonly #lists = new Map<bigint, SentList>();

  constructor({ listCountMax }: { readonly listCountMax: number }) {
    assert(listCountMax >= 1, "a cache holds at least one list");
    this.#listCountMax = listCountMax;
  }

  /** Whether the name alone is enough (C1). Uses the list: it becomes the youngest. */
  isHeld({ signature, keyCount }: KeyListName): boolean {
    const list = this.#lists.get(signature);
    if (list === undefined) return false;
    this.#lists.delete(signature);
    this.#lists.set(signature, list);
    return list.isHeld && list.keyCount === keyCount;
  }

  /** Whether the receiver should be asked to remember a list that travels with its keys (C4). */
  isWorthHolding({ signature, keyCount }: KeyListName): boolean {
    return keyCount >= NAMED_KEYS_MIN && (this.#lists.get(signature)?.misses ?? 0) < MISSES_MAX;
  }

  /** The receiver acknowledged a message that asked it to remember this list. */
  acknowledged({ signature, keyCount }: KeyListName): void {
    const misses = this.#lists.get(signature)?.misses ?? 0;
    this.#lists.delete(signature);
    this.#lists.set(signature, { keyCount, isHeld: misses < MISSES_MAX, misses });
    if (this.#lists.size <= this.#listCountMax) return;
    for (const oldest of this.#lists.keys()) {
      this.#lists.delete(oldest); // C3
      return;
    }
  }

  /** The receiver answered UNKNOWN_KEY_LIST. */
  missed({ signature }: KeyListName): void {
    const list = this.#lists.get(signature);
    if (list === undefined) return;
    list.isHeld = false;
    list.misses++;
  }

  /** The receiver was restarted, or is another one: it holds nothing. */
  clear(): void {
    this.#lists.clear();
  }
}

/** The answer to a name that is not held. */
export function unknownKeyList({ signature, keyCount }: KeyListName): WeighbridgeError {
  const message = `no list of ${keyCount} keys with the signature ${signature.toString(16)} is held: send the keys`;
  return new WeighbridgeError("UNKNOWN_KEY_LIST", message, { retryable: true });
}

/** A list in the arena, the caller's until `release`. */
export interface HeldKeyList {
  readonly address: number;
  readonly keyCount: number;
  release(): void;
}

class ReceivedList implements HeldKeyList {
  readonly address: number;
  readonly keyCount: number;
  readonly #free: () => void;
  /** The cache itself is the first. */
  #holderCount = 1;

  constructor(address: number, keyCount: number, free: () => void) {
    this.address = address;
    this.keyCount = keyCount;
    this.#free = free;
  }

  hold(): this {
    this.#holderCount++;
    return this;
  }

  release(): void {
    assert(this.#holderCount > 0, "a key list is released once by each holder");
    if (--this.#holderCount === 0) this.#free();
  }
}

export type ReceivedKeyListsOptions = {
  readonly listCountMax: number;
  /** Arena bytes of all lists together, those in use after they were dropped not counted. */
  readonly bytesMax: number;
};

/** The receiver's side: the lists of one sender. */
export class ReceivedKeyLists {
  readonly #context: CodecContext;
  readonly #options: ReceivedKeyListsOptions;
  readonly #lists = new Map<bigint, ReceivedList>();
  /** 8 bytes for the signature of a list that came. */
  readonly #signature: number;
  #byteCount = 0;

  /** Throws ARENA_FULL. */
  constructor(context: CodecContext, options: ReceivedKeyListsOptions) {
    this.#context = context;
    this.#options = options;
    this.#signature = context.arena.allocate(KEY_BYTES);
  }

  get byteCount(): number {
    return this.#byteCount;
  }

  /**
   * Keeps a copy of a list that came with its keys. A list that is too long for the cache, or for which the arena has no room, is not
   * kept: its sender learns that when it names it. Throws BAD_REQUEST if the name is not that of the keys (C2).
   */
  remember(name: KeyListName, keys: number): void {
    const { arena, kernels } = this.#context;
    const { signature } = nameOfKeys(this.#context, keys, name.keyCount, this.#signature);
    if (signature !== name.signature) throw malformed(`a list of ${name.keyCount} keys under a name that is not its own`);
    if (this.#touch(name) !== undefined) return;
    const byteCount = name.keyCount * KEY_BYTES;
    const copy = byteCount <= this.#options.bytesMax ? arena.tryAllocate(byteCount) : 0;
    if (copy === 0) return;
    kernels.copy(copy, keys, byteCount);
    this.#drop(signature);
    this.#lists.set(signature, new ReceivedList(copy, name.keyCount, () => arena.release(copy, byteCount)));
    this.#byteCount += byteCount;
    for (const oldest of this.#lists.keys()) {
      if (this.#lists.size <= this.#options.listCountMax && this.#byteCount <= this.#options.bytesMax) break;
      this.#drop(oldest); // C3
    }
  }

  /** The keys of a named list, to be released by the caller. Throws UNKNOWN_KEY_LIST, which is retryable: with the keys. */
  find(name: KeyListName): HeldKeyList {
    const list = this.#touch(name);
    if (list === undefined) throw unknownKeyList(name);
    return list.hold();
  }

  close(): void {
    for (const signature of [...this.#lists.keys()]) this.#drop(signature);
    this.#context.arena.release(this.#signature, KEY_BYTES);
  }

  /** The list of this name, which becomes the youngest. */
  #touch({ signature, keyCount }: KeyListName): ReceivedList | undefined {
    const list = this.#lists.get(signature);
    if (list === undefined || list.keyCount !== keyCount) return undefined;
    this.#lists.delete(signature);
    this.#lists.set(signature, list);
    return list;
  }

  #drop(signature: bigint): void {
    const list = this.#lists.get(signature);
    if (list === undefined) return;
    this.#lists.delete(signature);
    this.#byteCount -= list.keyCount * KEY_BYTES;
    list.release();
  }
}
