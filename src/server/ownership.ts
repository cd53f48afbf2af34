// ownership — what this server owns of each parameter, by the newest placement that it knows, and the errors for the
// rest. Nothing else on a server knows the placement. request-gate.ts and the function host decide which requests to
// check.
//
//   part     4,096 parts of mixed keys: rows of tables by their key, blocks of tensors by parameter and block
//   range    kv has raw keys: of n servers the one at index i of the ranks, ascending, owns the i-th of n even ranges
//
// Invariants:
//   Ownership.O1. The epoch only rises. It is 0 before the first placement: then nothing is checked, and nothing is
//       owned.
//   Ownership.O2. Parts are a set: neither they nor ranks are consecutive.
//   Ownership.O3. WRONG_EPOCH carries the placement, so that a refused caller can retry at once; WRONG_OWNER is not
//       retryable.
//   Ownership.O4. A server that has prepared for a change of the servers accepts no state that an application assigned
//       to it itself until the change is over.
//   Ownership.O5. While parts come to or go from this server with the placement (copy/parts-exchange.ts), requests of
//       its epoch wait, and those of the one before are refused: the server answers for no part that it does not have
//       (Availability.I4).
//   Ownership.O6. While parts of the job move between servers, no application may begin to keep state by even ranges,
//       or on servers of its own choice: that state could not move.

import { WeighbridgeError } from "../base/errors.ts";
import type { Arena } from "../kernel/arena.ts";
import { KEY_BYTES } from "../kernel/elements.ts";
import { type OwnershipKernels, simdOwnershipKernels } from "../kernel/partition-kernels.ts";
import { evenRanges } from "../keys/key-range.ts";
import { PART_BITS, PART_COUNT, type Placement, partOf } from "../keys/placement.ts";
import { Placements } from "../keys/placement-of.ts";
import { APP_CUT } from "../wire/frame.ts";
import type { PlacementView } from "../wire/roster.ts";

const KEY_WORDS = KEY_BYTES / 4;

const TWO_32 = 2n ** 32n;

/** As the halves of keys; without an end it reaches to the last key. */
type OwnedRange = {
  readonly firstLow: number;
  readonly firstHigh: number;
  readonly endLow: number;
  readonly endHigh: number;
  readonly hasEnd: boolean;
};

export class Ownership {
  /** Of the placement; 0 while there is none (Ownership.O1). Nobody else writes it. */
  epoch = 0;
  /** The newest epoch whose requests are served: the one before `epoch` while parts come or go (Ownership.O5). */
  servedEpoch = 0;
  /**
   * The address of a byte for each part, 1 if owned, for the lookup in tables; 0 if all are, or before the first
   * placement (store/table-requests.ts). Nobody else writes it.
   */
  owned = 0;
  readonly #arena: Arena;
  readonly #kernels: OwnershipKernels;
  #rank = 0;
  #view: PlacementView | undefined;
  #placement: Placement | undefined;
  readonly #placements = new Placements();
  /** One byte for each part, in the arena: 1 if it is ours. 0: not allocated yet. */
  #ownedParts = 0;
  #ownsAll = false;
  #lossEpoch = 0;
  readonly #range = { firstLow: 0, firstHigh: 0, endLow: 0, endHigh: 0, hasEnd: false };
  /** Of the raw keys: the halves of the first one that is ours, and of the first one after the range. */
  readonly range: OwnedRange = this.#range;
  #hasAppCut = false;
  /** Whether parts of the job are on their way from servers to others (Ownership.O6). Nobody else writes it. */
  isOnTheWay = false;
  /** Whether this server is prepared for a placement with other servers. The checkpoint service writes it. */
  areServersChanging = false;
  #listeners: (() => void)[] = [];

  constructor(arena: Arena) {
    this.#arena = arena;
    this.#kernels = simdOwnershipKernels(arena);
  }

  get rank(): number {
    return this.#rank;
  }

  /** The servers of the placement. */
  get serverCount(): number {
    return this.#view?.servers.length ?? 0;
  }

  /** Their ranks, ascending. */
  get servers(): Uint32Array {
    return Uint32Array.from(this.#placement?.servers ?? []);
  }

  get placement(): PlacementView | undefined {
    return this.#view;
  }

  /** Whether parts come to or go from this server (Ownership.O5). */
  get isSettling(): boolean {
    return this.servedEpoch !== this.epoch;
  }

  /** The newest epoch in which a part left this server: earlier requests may be about that part. */
  get lossEpoch(): number {
    return this.#lossEpoch;
  }

  /** Whether an application chose this server for a request itself: then its state does not follow the placement. */
  get hasAppCut(): boolean {
    return this.#hasAppCut;
  }

  noteAppCut(): void {
    this.#hasAppCut = true;
  }

  /**
   * For a request whose application chose this server itself. Throws QUEUE_FULL for the first one while a change of the
   * servers is prepared: its state could not move, and the scheduler counts on there being none (Ownership.O4).
   */
  admitAppCut(): void {
    if (this.#hasAppCut) return;
    if (this.areServersChanging || this.isOnTheWay) throw changing("requests whose servers an application chose itself (setSlicer)");
    this.#hasAppCut = true;
  }

  /** For an update of raw keys. Throws QUEUE_FULL while parts are on their way (Ownership.O6). */
  admitRange(): void {
    if (this.isOnTheWay) throw changing("the first keys of an application of the kv face");
  }

  /**
   * Adopts the placement if it is newer, as the server of this rank; `isSettling`: `settled` is called when its parts
   * are where they belong (Ownership.O5). Throws ARENA_FULL.
   */
  adopt(view: PlacementView, rank: number, { isSettling = false }: { readonly isSettling?: boolean } = {}): void {
    if (view.epoch <= this.epoch) return; // Ownership.O1
    const placement = this.#placements.of(view);
    const before = this.#placement;
    if (this.#ownedParts === 0) this.#ownedParts = this.#arena.allocate(PART_COUNT);
    const { bytes } = this.#arena;
    let ownedCount = 0;
    for (let part = 0; part < PART_COUNT; part++) {
      const isOwned = placement.ownerOf(part) === rank;
      if (!isOwned && before?.ownerOf(part) === rank) this.#lossEpoch = view.epoch;
      bytes[this.#ownedParts + part] = isOwned ? 1 : 0;
      if (isOwned) ownedCount++;
    }
    this.#rank = rank;
    this.#view = view;
    this.isOnTheWay = view.move !== undefined;
    if (!isSettling) this.servedEpoch = view.epoch;
    this.epoch = view.epoch;
    this.#placement = placement;
    this.#ownsAll = ownedCount === PART_COUNT;
    this.owned = this.#ownsAll ? 0 : this.#ownedParts;
    this.#adoptRange(placement);
    for (const listener of this.#listeners) listener();
  }

  /** All parts of the placement are where they belong (Ownership.O5). */
  settled(): void {
    this.servedEpoch = this.epoch;
    for (const listener of this.#listeners) listener();
  }

  /** Calls `listener` after every newer placement, and when its parts are where they belong. */
  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  ownsPart(part: number): boolean {
    return this.#placement?.ownerOf(part) === this.#rank;
  }

  /** The parameter's number, and one of its blocks. */
  ownsBlock(parameter: number, block: number): boolean {
    return this.ownsPart(partOf(block, parameter));
  }

  /** A key of a table, as its u32 halves. */
  ownsKey(low: number, high: number): boolean {
    return this.ownsPart(partOf(low, high));
  }

  /** Whether any of the parts from `from` up to, not including, `to` is this server's. */
  ownsAnyOf({ from, to }: { readonly from: number; readonly to: number }): boolean {
    for (let part = from; part < to; part++) if (this.ownsPart(part)) return true;
    return false;
  }

  /** Whether the placement of a checkpoint assigns all parts as this one does; its epoch may differ. */
  isSameAs(other: unknown): boolean {
    if (this.#view === undefined || typeof other !== "object" || other === null) return false;
    const wordsOf = ({ policy, servers, moved = [] }: Partial<PlacementView>): string => JSON.stringify([policy, servers, moved]);
    return wordsOf(other) === wordsOf(this.#view);
  }

  /** Throws WRONG_EPOCH for a request about parts that was cut by no placement. */
  checkEpoch(epoch: number): void {
    if (epoch === 0 && this.epoch !== 0) throw this.wrongEpoch(0);
  }

  /** For a kv request that was kept. Throws WRONG_EPOCH if the placement has changed meanwhile. */
  checkKept(epoch: number, flags: number): void {
    if ((flags & APP_CUT) === 0 && epoch !== this.epoch) throw this.wrongEpoch(epoch);
  }

  /** The error for an answer that waited while a part, perhaps its own, went to another server. */
  lateError({ name, isUpdate }: { readonly name: string; readonly isUpdate: boolean }, epoch: number): WeighbridgeError | undefined {
    if (epoch >= this.#lossEpoch) return undefined;
    if (!isUpdate) return this.wrongEpoch(epoch);
    return new WeighbridgeError("ANSWER_LOST", `${name} was applied, but what it was to answer has another owner now`);
  }

  /** Throws WRONG_OWNER. */
  checkBlock(parameter: number, block: number): void {
    if (this.#ownsAll || this.#placement === undefined || this.ownsBlock(parameter, block)) return;
    throw this.#wrongOwner(`block ${block} of parameter ${parameter}`, partOf(block, parameter));
  }

  /** Keys of a table, in the arena. Throws WRONG_OWNER. */
  checkKeys(keys: BigUint64Array): void {
    if (this.#ownsAll || this.#placement === undefined) return;
    const index = this.#kernels.firstForeignKey(keys.byteOffset, keys.length, this.#ownedParts, PART_BITS);
    if (index === keys.length) return;
    const key = keys[index]!;
    throw this.#wrongOwner(`key ${key}`, partOf(Number(key % TWO_32), Number(key / TWO_32)));
  }

  /** The error for raw keys, ascending, at word index `at`, that are not all in `range`. */
  wrongRange(words: Uint32Array, at: number, keyCount: number): WeighbridgeError {
    const message = `the keys of a request from ${keyAt(words, at)} to ${keyAt(words, at + 2 * (keyCount - 1))} are not all server ${this.#rank}'s`;
    return new WeighbridgeError("WRONG_OWNER", `${message} in epoch ${this.epoch}`);
  }

  /** The error for a request that was cut by another placement (Ownership.O3). */
  wrongEpoch(epoch: number): WeighbridgeError {
    const cut = epoch === 0 ? "by no placement" : `by the placement of epoch ${epoch}`;
    const message = `the request was cut ${cut}, and server ${this.#rank} has that of epoch ${this.epoch}; nothing of it was applied`;
    return new WeighbridgeError("WRONG_EPOCH", message, { retryable: true, detail: this.#view });
  }

  #adoptRange({ servers }: Placement): void {
    const index = servers.indexOf(this.#rank);
    const ranges = evenRanges(servers.length);
    const { begin } = ranges[Math.max(0, index)]!;
    const end = index < 0 ? begin : ranges[index + 1]?.begin; // a server outside of the placement owns nothing
    this.#range.firstLow = Number(begin % TWO_32);
    this.#range.firstHigh = Number(begin / TWO_32);
    this.#range.hasEnd = end !== undefined;
    this.#range.endLow = Number((end ?? 0n) % TWO_32);
    this.#range.endHigh = Number((end ?? 0n) / TWO_32);
  }

  #wrongOwner(what: string, part: number): WeighbridgeError {
    const owner = this.#placement?.ownerOf(part);
    const message = `${what} (part ${part}) is server ${owner}'s in epoch ${this.epoch}, not server ${this.#rank}'s: the caller cut its request wrongly`;
    return new WeighbridgeError("WRONG_OWNER", message);
  }
}

function changing(what: string): WeighbridgeError {
  const message = `the servers of the job are about to change, and ${what} wait for that: send it again; nothing of it was applied`;
  return new WeighbridgeError("QUEUE_FULL", message, { retryable: true });
}

function keyAt(words: Uint32Array, at: number): bigint {
  return BigInt(words[at + 1]!) * TWO_32 + BigInt(words[at]!);
}

/** Of raw keys, ascending, at word index `at`. Throws WRONG_OWNER unless all are this server's. */
export function checkRange(ownership: Ownership, words: Uint32Array, at: number, keyCount: number): void {
  if (!ownsRawKeys(ownership, words, at, keyCount)) throw ownership.wrongRange(words, at, keyCount);
}

/** Whether raw keys, ascending, at word index `at`, are all this server's. */
export function ownsRawKeys({ range }: Ownership, words: Uint32Array, at: number, keyCount: number): boolean {
  const { firstLow, firstHigh, endLow, endHigh, hasEnd } = range;
  const last = at + (keyCount - 1) * KEY_WORDS;
  if (hasEnd && !isBelow(words[last]!, words[last + 1]!, endLow, endHigh)) return false;
  return !isBelow(words[at]!, words[at + 1]!, firstLow, firstHigh);
}

/** Whether a raw key, as its u32 halves, is this server's. */
export function ownsRawKey({ range }: Ownership, low: number, high: number): boolean {
  const { firstLow, firstHigh, endLow, endHigh, hasEnd } = range;
  return !isBelow(low, high, firstLow, firstHigh) && (!hasEnd || isBelow(low, high, endLow, endHigh));
}

function isBelow(keyLow: number, keyHigh: number, low: number, high: number): boolean {
  return keyHigh < high || (keyHigh === high && keyLow < low);
}
