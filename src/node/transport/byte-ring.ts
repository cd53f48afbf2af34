// byte-ring — a stream of bytes through memory that two processes share, one way: the writer's end and the reader's
// end. Not who looks when (shared-link.ts), not where the memory comes from (shared-memory.ts).
//
// The writer puts bytes anywhere into the data, and describes each piece in a slot; slots are used in turn. When the
// reader has everything, the next piece begins at the front again: a link with little traffic touches few pages.
//
//   control, one page    nonce, proof, per end a word, per direction the words below, each on lines of its own
//   slots                2 × SLOTS × (i32 offset, i32 byteCount)
//   data                 2 × DATA_BYTES
//
//   word of a direction  written by   meaning
//   tail                 writer       pieces that were written so far, modulo 2^32
//   head                 reader       pieces that were read so far
//   isFull               both         the writer waits for room (1); the reader sets it back when it has made some
//
// The other process may be anybody's: whatever lies in shared memory can change at any moment.
//
//   ByteRing.R1. Bytes are copied out before anybody looks at them: what was checked does not change any more.
//   ByteRing.R2. A word or slot is read once, into a variable, checked, and used from there. One that cannot be ends
//       the link: BAD_FRAME.
//   ByteRing.R3. What the writer needs to know of its own pieces it keeps in memory of its own.
//   ByteRing.R4. Words are written and read in one order (Atomics); slots and data are written before `tail` says so,
//       and read before `head` does.

import { WeighbridgeError } from "../../base/errors.ts";
import type { SharedMemory } from "./shared-memory.ts";

export const PAGE_BYTES = 4096;
/** Pieces under way, a power of two. */
export const SLOTS = 512;
const SLOT_WORDS = 2;
const SLOTS_BYTES: number = SLOTS * SLOT_WORDS * 4;
export const DATA_BYTES: number = 1024 * 1024;
const SLOTS_AT = PAGE_BYTES;
const DATA_AT: number = SLOTS_AT + 2 * SLOTS_BYTES;
export const MEMORY_BYTES: number = DATA_AT + 2 * DATA_BYTES;

/** Pieces are at most this long, so that one is read while the next is written. */
const PIECE_BYTES_MAX: number = 256 * 1024;
/** A chunk that finds less room than it needs, and than this, waits. */
const PART_BYTES_MIN: number = 64 * 1024;
const ALIGN_BYTES = 64;
/** What is kept of the data when pages are given back. */
const KEPT_BYTES: number = 16 * PAGE_BYTES;

const NONCE_BYTES = 32;
const AWAKE_WORD = 32;
const AWAKE_STEP = 32;
const DIRECTION_WORD = 128;
const DIRECTION_STEP = 128;
const TAIL = 0;
const HEAD = 32;
const IS_FULL = 64;

/** From here on the system copies memory that threads share: the engine takes twice as long for it. */
const SYSTEM_COPY_BYTES_MIN: number = 16 * 1024;

/** 0: who offered the memory. 1: who took it. */
export type Side = 0 | 1;

/** The words of both sides. */
export class RingControl {
  readonly nonce: Uint8Array;
  readonly proof: Uint8Array;
  readonly #words: Int32Array;
  readonly #own: number;
  readonly #other: number;

  constructor(buffer: ArrayBuffer, side: Side) {
    this.nonce = new Uint8Array(buffer, 0, NONCE_BYTES);
    this.proof = new Uint8Array(buffer, NONCE_BYTES, NONCE_BYTES);
    this.#words = new Int32Array(buffer, 0, PAGE_BYTES / 4);
    this.#own = AWAKE_WORD + side * AWAKE_STEP;
    this.#other = AWAKE_WORD + (1 - side) * AWAKE_STEP;
  }

  /** Whether we look by ourselves; otherwise the other side rings. Look once more after setting it to false. */
  set isAwake(isAwake: boolean) {
    Atomics.store(this.#words, this.#own, isAwake ? 1 : 0);
  }

  /** True once for each time that the other side fell asleep: ring. */
  takeSleeper(): boolean {
    return Atomics.load(this.#words, this.#other) === 0 && Atomics.exchange(this.#words, this.#other, 1) === 0;
  }
}

/** What a ring lies in. */
export type RingMemory = Pick<SharedMemory, "buffer" | "copyIn" | "copyOut">;

/** What both ends of one direction look at. */
type Direction = { readonly words: Int32Array; readonly slots: Int32Array; readonly data: Uint8Array };

/** Direction 0 is written by side 0. */
function directionOf(buffer: ArrayBuffer, direction: number): Direction {
  return {
    words: new Int32Array(buffer, 4 * (DIRECTION_WORD + direction * DIRECTION_STEP), DIRECTION_STEP),
    slots: new Int32Array(buffer, SLOTS_AT + direction * SLOTS_BYTES, SLOTS * SLOT_WORDS),
    data: new Uint8Array(buffer, DATA_AT + direction * DATA_BYTES, DATA_BYTES),
  };
}

function broken(what: string): WeighbridgeError {
  return new WeighbridgeError("BAD_FRAME", `a peer wrote into shared memory what cannot be: ${what}`);
}

export class RingWriter {
  readonly #memory: RingMemory;
  readonly #words: Int32Array;
  readonly #slots: Int32Array;
  readonly #data: Uint8Array;
  readonly #dataAt: number;
  /** Where each piece begins that is under way (ByteRing.R3). */
  readonly #starts = new Int32Array(SLOTS);
  #tail = 0;
  #head = 0;
  /** Behind the last piece. */
  #end = 0;
  /** The highest `end` since pages were given back. */
  #touched = 0;

  constructor(memory: RingMemory, side: Side) {
    const { words, slots, data } = directionOf(memory.buffer, side);
    this.#memory = memory;
    this.#words = words;
    this.#slots = slots;
    this.#data = data;
    this.#dataAt = data.byteOffset;
  }

  /** Copies what fits of `chunk`, from `from` on, and returns how much that is: 0 if there is no room. */
  write(chunk: Uint8Array, from: number): number {
    const wanted = Math.min(chunk.length - from, PIECE_BYTES_MAX);
    const start = this.#startFor(wanted);
    if (start < 0) return 0;
    const end = start < this.#firstStart ? this.#firstStart - ALIGN_BYTES : DATA_BYTES;
    const byteCount = Math.min(wanted, end - start);
    const bytes = byteCount === chunk.length ? chunk : chunk.subarray(from, from + byteCount);
    if (isForSystem(bytes, byteCount)) this.#memory.copyIn(bytes, this.#dataAt + start, byteCount);
    else this.#data.set(bytes, start);
    const index = this.#tail & (SLOTS - 1);
    this.#slots[index * SLOT_WORDS] = start;
    this.#slots[index * SLOT_WORDS + 1] = byteCount;
    this.#starts[index] = start;
    this.#end = start + ((byteCount + ALIGN_BYTES - 1) & -ALIGN_BYTES);
    if (this.#end > this.#touched) this.#touched = this.#end;
    this.#tail = (this.#tail + 1) | 0;
    Atomics.store(this.#words, TAIL, this.#tail); // ByteRing.R4
    return byteCount;
  }

  /** Asks the reader to say when there is room, and looks once more whether there is some for so many bytes now. */
  awaitRoom(byteCount: number): boolean {
    Atomics.store(this.#words, IS_FULL, 1);
    return this.#startFor(Math.min(byteCount, PIECE_BYTES_MAX)) >= 0;
  }

  /** Gives pages back that lie idle; true if there were any. */
  discard(discard: (from: number, byteCount: number) => void): boolean {
    this.#takeHead();
    if (this.#tail !== this.#head || this.#touched <= KEPT_BYTES) return false;
    discard(this.#dataAt + KEPT_BYTES, DATA_BYTES - KEPT_BYTES);
    this.#touched = 0;
    return true;
  }

  /** Where the oldest piece begins, or beyond everything if there is none. */
  get #firstStart(): number {
    return this.#head === this.#tail ? DATA_BYTES : (this.#starts[this.#head & (SLOTS - 1)] as number);
  }

  #takeHead(): void {
    const head = Atomics.load(this.#words, HEAD);
    if ((head - this.#head) >>> 0 > (this.#tail - this.#head) >>> 0) throw broken("it has read what was not written");
    this.#head = head;
  }

  /** Where a piece begins that takes all or much of so many bytes; -1: nowhere now. */
  #startFor(wanted: number): number {
    this.#takeHead();
    if (this.#head === this.#tail) return 0;
    if ((this.#tail - this.#head) >>> 0 === SLOTS) return -1;
    const first = this.#firstStart;
    const end = this.#end;
    if (end <= first) return isRoom(first - ALIGN_BYTES - end, wanted) ? end : -1;
    const behind = DATA_BYTES - end;
    if (behind >= wanted) return end;
    const before = first - ALIGN_BYTES;
    if (before >= wanted) return 0;
    if (behind >= before) return isRoom(behind, wanted) ? end : -1;
    return isRoom(before, wanted) ? 0 : -1;
  }
}

function isForSystem({ buffer }: Uint8Array, byteCount: number): boolean {
  return byteCount >= SYSTEM_COPY_BYTES_MIN && buffer instanceof SharedArrayBuffer;
}

function isRoom(room: number, wanted: number): boolean {
  return room >= wanted || room >= PART_BYTES_MIN;
}

export class RingReader {
  readonly #memory: RingMemory;
  readonly #words: Int32Array;
  readonly #slots: Int32Array;
  readonly #data: Uint8Array;
  #head = 0;
  /** Of the piece that is being read. */
  #at = 0;
  #left = 0;

  constructor(memory: RingMemory, side: Side) {
    const { words, slots, data } = directionOf(memory.buffer, 1 - side);
    this.#memory = memory;
    this.#words = words;
    this.#slots = slots;
    this.#data = data;
  }

  get hasInput(): boolean {
    return this.#left > 0 || Atomics.load(this.#words, TAIL) !== this.#head;
  }

  /** Copies what there is of a piece into `view`, and returns how much that is: 0 if there is none (ByteRing.R1). */
  read(view: Uint8Array): number {
    if (this.#left === 0 && !this.#begin()) return 0;
    const byteCount = Math.min(view.length, this.#left);
    const at = this.#at;
    if (isForSystem(view, byteCount)) this.#memory.copyOut(this.#data.byteOffset + at, view, byteCount);
    else view.set(this.#data.subarray(at, at + byteCount));
    this.#at = at + byteCount;
    this.#left -= byteCount;
    if (this.#left === 0) this.#end();
    return byteCount;
  }

  /** Whatever there is, is read by nobody. */
  drop(): void {
    this.#left = 0;
    this.#head = Atomics.load(this.#words, TAIL);
    Atomics.store(this.#words, HEAD, this.#head);
  }

  /** Whether the writer waits for room, which there is now; true once. */
  takeWaiter(): boolean {
    return Atomics.load(this.#words, IS_FULL) !== 0 && Atomics.exchange(this.#words, IS_FULL, 0) !== 0;
  }

  /** ByteRing.R2 */
  #begin(): boolean {
    const pieceCount = (Atomics.load(this.#words, TAIL) - this.#head) >>> 0;
    if (pieceCount === 0) return false;
    if (pieceCount > SLOTS) throw broken(`${pieceCount} pieces under way`);
    const slot = (this.#head & (SLOTS - 1)) * SLOT_WORDS;
    const at = this.#slots[slot] as number;
    const byteCount = this.#slots[slot + 1] as number;
    if (at < 0 || byteCount < 1 || byteCount > PIECE_BYTES_MAX || at > DATA_BYTES - byteCount)
      throw broken(`a piece of ${byteCount} bytes at ${at}`);
    this.#at = at;
    this.#left = byteCount;
    return true;
  }

  #end(): void {
    this.#head = (this.#head + 1) | 0;
    Atomics.store(this.#words, HEAD, this.#head); // ByteRing.R4
  }
}
