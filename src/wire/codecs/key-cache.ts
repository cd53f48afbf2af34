// key-cache — a repeated key list travels once (OSDI'14, §3.3). The sender names a list that the receiver is known to
// hold; a receiver that does not hold it any more answers UNKNOWN_KEY_LIST, and the sender sends the keys. (The
// original aborts there, and uses a checksum of the first 2 KB of a list as its name.)
//
// There is one pair for each direction of each conversation: peers never share lists.
//
// A message that comes back and leaves again is overtaken by those behind it: a read would miss the update before it.
// So the sender names a list only while the receiver cannot have dropped it. The receiver drops the oldest list first,
// and the sender counts: between the message that carries a list and the arrival of one that names it, the receiver
// gets at most this many others:
//   OPEN_MAX sent before and not acknowledged + listCountMax sent since + LATER_MAX sent while the name is on its way
// UNKNOWN_KEY_LIST then comes only from a receiver that was restarted, or took the sender for dead.
//
// Invariants:
//   KeyCache.C1. A list is named only after the receiver acknowledged a message that had it remember the list.
//   KeyCache.C2. A receiver answers a name with exactly the keys it got under that name, which it checked, or not at
//       all.
//   KeyCache.C3. Both sides are bounded; the oldest list goes first. A list in use stays in memory until it is
//       released.
//   KeyCache.C4. A list that a receiver missed twice is not named again: lists that evict each other must not cost a
//       round trip each.
//   KeyCache.C5. A receiver that holds receivedListCount(n) lists has every list that a sender of n lists names.

import { assert } from "../../base/assert.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import { KEY_BYTES } from "../../keys/key-range.ts";
import { type KeyListName, nameOfKeys } from "./key-codec.ts";
import { type CodecContext, malformed } from "./value-codec.ts";

/** Shorter lists are not worth a name. */
const NAMED_KEYS_MIN = 16;

const MISSES_MAX = 2;

const OPEN_MAX = 16;
const LATER_MAX = 16;

/** How many lists a receiver holds for a sender that names the last `listCountMax` (KeyCache.C5). */
export function receivedListCount(listCountMax: number): number {
  return listCountMax + OPEN_MAX + LATER_MAX;
}

/** `sentAs`: the list's number among those sent, 0 if it is not held. `misses`: how often it was not there. */
type SentList = { readonly keyCount: number; sentAs: number; misses: number };

/** A message that names a list, or has the receiver remember it. Ends once: acknowledged, missed or failed. */
export type OpenKeyList = {
  readonly name: KeyListName;
  readonly isNamed: boolean;
  /** How many lists had been sent when it was written. */
  readonly at: number;
  readonly holder: number;
};

/** The sender's side: what one receiver is known to hold. */
export class SentKeyLists {
  readonly #listCountMax: number;
  /** In the order in which they were acknowledged first. */
  readonly #lists = new Map<bigint, SentList>();
  /** Lists that were sent to be remembered so far. */
  #sentCount = 0;
  readonly #openSent = new Set<OpenKeyList>();
  /** In the order of their `at`. */
  readonly #openNamed = new Set<OpenKeyList>();
  #holder = 0;

  constructor({ listCountMax }: { readonly listCountMax: number }) {
    assert(listCountMax >= 1, "a cache holds at least one list");
    this.#listCountMax = listCountMax;
  }

  /** Whether the name alone is enough (KeyCache.C1, C5). */
  isHeld({ signature, keyCount }: KeyListName): boolean {
    const list = this.#lists.get(signature);
    if (list === undefined || list.sentAs === 0 || list.keyCount !== keyCount) return false;
    return this.#sentCount - list.sentAs < this.#listCountMax;
  }

  /** Whether the receiver should remember a list that travels with its keys (KeyCache.C4, C5). */
  isWorthHolding({ signature, keyCount }: KeyListName): boolean {
    if (keyCount < NAMED_KEYS_MIN || this.#openSent.size >= OPEN_MAX) return false;
    const [oldest] = this.#openNamed;
    if (oldest !== undefined && this.#sentCount - oldest.at >= LATER_MAX) return false;
    return (this.#lists.get(signature)?.misses ?? 0) < MISSES_MAX;
  }

  /** A message leaves that names this list, or carries it. */
  open(name: KeyListName, isNamed: boolean): OpenKeyList {
    if (!isNamed) this.#sentCount++;
    const open = { name, isNamed, at: this.#sentCount, holder: this.#holder };
    (isNamed ? this.#openNamed : this.#openSent).add(open);
    return open;
  }

  acknowledged(open: OpenKeyList): void {
    if (!this.#end(open) || open.isNamed) return;
    const { signature, keyCount } = open.name;
    const known = this.#lists.get(signature);
    this.#lists.delete(signature);
    this.#lists.set(signature, { keyCount, sentAs: Math.max(open.at, known?.sentAs ?? 0), misses: known?.misses ?? 0 });
    for (const oldest of this.#lists.keys()) {
      if (this.#lists.size <= this.#listCountMax) break;
      this.#lists.delete(oldest); // KeyCache.C3
    }
  }

  /** The receiver answered UNKNOWN_KEY_LIST. */
  missed(open: OpenKeyList): void {
    const list = this.#end(open) ? this.#lists.get(open.name.signature) : undefined;
    if (list === undefined) return;
    list.sentAs = 0;
    list.misses++;
  }

  /** The message failed for another reason: nobody knows whether the list is held. */
  failed(open: OpenKeyList): void {
    this.#end(open);
  }

  /** The receiver was restarted, or is another one: it holds nothing. */
  clear(): void {
    this.#holder++;
    this.#lists.clear();
    this.#openSent.clear();
    this.#openNamed.clear();
  }

  /** False for a message to an earlier incarnation of the receiver. */
  #end(open: OpenKeyList): boolean {
    (open.isNamed ? this.#openNamed : this.#openSent).delete(open);
    return open.holder === this.#holder;
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
  /** Arena bytes of all lists together, without dropped ones that are still in use. */
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
   * Keeps a copy of a list that came with its keys. A list that is too long for the cache is not kept: the sender
   * learns that when it names it. Throws BAD_REQUEST if the name is not that of the keys (KeyCache.C2), and ARENA_FULL:
   * a sender may rely on what was acknowledged (KeyCache.C5).
   */
  remember(name: KeyListName, keys: number): void {
    const { arena, kernels } = this.#context;
    const { signature } = nameOfKeys(this.#context, keys, name.keyCount, this.#signature);
    if (signature !== name.signature) throw malformed(`a list of ${name.keyCount} keys under a name that is not its own`);
    const known = this.#held(name);
    if (known !== undefined) {
      this.#lists.delete(signature);
      this.#lists.set(signature, known); // the youngest now
      return;
    }
    const byteCount = name.keyCount * KEY_BYTES;
    if (byteCount > this.#options.bytesMax) return;
    const copy = arena.allocate(byteCount);
    kernels.copy(copy, keys, byteCount);
    this.#drop(signature);
    this.#lists.set(signature, new ReceivedList(copy, name.keyCount, () => arena.release(copy, byteCount)));
    this.#byteCount += byteCount;
    for (const oldest of this.#lists.keys()) {
      if (this.#lists.size <= this.#options.listCountMax && this.#byteCount <= this.#options.bytesMax) break;
      this.#drop(oldest); // KeyCache.C3
    }
  }

  /** The keys of a named list, which the caller releases. Throws UNKNOWN_KEY_LIST: retry with the keys. */
  find(name: KeyListName): HeldKeyList {
    const list = this.#held(name);
    if (list === undefined) throw unknownKeyList(name);
    return list.hold();
  }

  close(): void {
    for (const signature of [...this.#lists.keys()]) this.#drop(signature);
    this.#context.arena.release(this.#signature, KEY_BYTES);
  }

  #held({ signature, keyCount }: KeyListName): ReceivedList | undefined {
    const list = this.#lists.get(signature);
    return list?.keyCount === keyCount ? list : undefined;
  }

  #drop(signature: bigint): void {
    const list = this.#lists.get(signature);
    if (list === undefined) return;
    this.#lists.delete(signature);
    this.#byteCount -= list.keyCount * KEY_BYTES;
    list.release();
  }
}
