// key-cache — a repeated key list travels once (OSDI'14, §3.3). The sender names a list that the receiver is known to
// hold; a receiver that does not hold it any more answers UNKNOWN_KEY_LIST, and the sender sends the keys. (The
// original aborts there, and uses a checksum of the first 2 KB of a list as its name.)
//
// There is one pair for each direction of each conversation: peers never share lists. This file has the sender's side;
// the receiver's is in received-key-lists.ts, so that a client does without it.
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
import type { KeyListName } from "./key-codec.ts";

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

  /** Whether the name alone is enough (KeyCache.C1, KeyCache.C5). */
  isHeld({ signature, keyCount }: KeyListName): boolean {
    const list = this.#lists.get(signature);
    if (list === undefined || list.sentAs === 0 || list.keyCount !== keyCount) return false;
    return this.#sentCount - list.sentAs < this.#listCountMax;
  }

  /** Whether the receiver should remember a list that travels with its keys (KeyCache.C4, KeyCache.C5). */
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
