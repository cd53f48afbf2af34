// answer-landing — where the answer to one call comes together: straight in the caller's array, or in memory made as it arrives.
//
// Invariants (the kv calls keep the same ones, as K1, K3 and K4):
//   L1. An answer lands in the caller's array only when it has exactly its length.
//   L2. An answer in several frames is never put together of two: when the call left again, a new one is made and the frames so far do not
//       count, unless the server keeps its answers and sends the same bytes again.
//   L3. Room for an answer of unknown length is made as it comes, at most twice what has come: what a server announces costs nothing.
//   L4. A passing answer of one frame, small enough to be read with its neighbours, does not land: it is handed on where it was read.

import { WeighbridgeError } from "../base/errors.ts";
import { type FrameHeader, offsetBytesOf, totalBytesOf } from "../wire/frame.ts";
import { COPY_BYTES_MAX } from "../wire/frame-reader.ts";
import { IN_PLACE_BYTES_MAX } from "./call.ts";

/** Up to here the room for an answer of unknown length is made at once. */
const ROOM_BYTES_MIN = 64 * 1024 * 1024;
const NO_BYTES = new Uint8Array(0);

export class AnswerLanding {
  readonly #into: Uint8Array | undefined;
  readonly #intoBytes: number;
  readonly #isKept: boolean;
  readonly #isTransient: boolean;
  #room: Uint8Array | undefined;
  #total = -1;
  #sendCount = 0;
  #arrivedBytes = 0;
  readonly #offsets = new Set<number>();

  /**
   * `into` is the caller's array, if it gave one; `isKept` says that the server answers a repeated call with the same bytes; `isTransient` that
   * whoever gets the answer copies it on at once.
   */
  constructor(into: Uint8Array | undefined, isKept: boolean, isTransient = false) {
    this.#into = into;
    this.#intoBytes = into?.length ?? 0;
    this.#isKept = isKept;
    this.#isTransient = isTransient;
  }

  /** Whether the caller's array is still there: one that was transferred away, or shrank, has no length any more. */
  get isIntact(): boolean {
    return this.#into === undefined || this.#into.length === this.#intoBytes;
  }

  /** Where the payload of this frame belongs; undefined leaves it in the read buffer. */
  destination(header: FrameHeader): Uint8Array | undefined {
    const { payloadBytes } = header;
    const offset = offsetBytesOf(header);
    const end = offset + payloadBytes;
    const total = totalBytesOf(header);
    if (payloadBytes <= IN_PLACE_BYTES_MAX || end > total) return undefined; // `take` says what is wrong with it
    return this.#staysWhereRead(payloadBytes, total) ? undefined : this.#roomFor(total, end)?.subarray(offset, end);
  }

  /** Takes a frame. Returns the whole answer when it was the last one. Throws BAD_FRAME or VALUE_LENGTH for one that cannot be. */
  take(header: FrameHeader, bytes: Uint8Array, at: number, sendCount: number): Uint8Array | undefined {
    const { payloadBytes } = header;
    const total = totalBytesOf(header);
    const offset = offsetBytesOf(header);
    const end = offset + payloadBytes;
    if (end > total) throw new WeighbridgeError("BAD_FRAME", "an answer reaches beyond its own end");
    if (this.#into !== undefined && total !== this.#into.length) {
      throw new WeighbridgeError("VALUE_LENGTH", `an answer of ${total} bytes came; there is room for exactly ${this.#into.length}`); // L1
    }
    if (total === 0) return this.#into ?? NO_BYTES;
    if (payloadBytes === 0) throw new WeighbridgeError("BAD_FRAME", "a part of an answer is empty");
    if (this.#staysWhereRead(payloadBytes, total)) return bytes.subarray(at, at + payloadBytes);
    const room = this.#roomFor(total, end);
    if (room === undefined)
      throw new WeighbridgeError("BAD_FRAME", `a part of an answer begins at byte ${offset} of ${total}, far ahead of those before it`);
    if (payloadBytes <= IN_PLACE_BYTES_MAX) room.set(bytes.subarray(at, at + payloadBytes), offset);
    return this.#isComplete(total, offset, payloadBytes, sendCount) ? room : undefined;
  }

  /** L4 */
  #staysWhereRead(payloadBytes: number, total: number): boolean {
    return this.#isTransient && payloadBytes === total && payloadBytes <= COPY_BYTES_MAX;
  }

  /** L2 */
  #isComplete(total: number, offset: number, payloadBytes: number, sendCount: number): boolean {
    if (payloadBytes === total) return true;
    if (this.#total !== total || (this.#sendCount !== sendCount && !this.#isKept)) {
      this.#total = total;
      this.#offsets.clear();
      this.#arrivedBytes = 0;
    }
    this.#sendCount = sendCount;
    if (this.#offsets.has(offset)) return false;
    this.#offsets.add(offset);
    this.#arrivedBytes += payloadBytes;
    return this.#arrivedBytes >= total;
  }

  /** L3 */
  #roomFor(total: number, end: number): Uint8Array | undefined {
    if (this.#into !== undefined) return total === this.#into.length ? this.#into : undefined;
    const room = this.#room;
    if (room !== undefined && room.length >= end && room.length <= total) return room;
    const roomBytesMax = Math.max(2 * this.#arrivedBytes, ROOM_BYTES_MIN);
    if (end > roomBytesMax) return undefined;
    const grown = new Uint8Array(Math.min(total, roomBytesMax));
    if (room !== undefined && room.length < grown.length) grown.set(room);
    this.#room = grown;
    return grown;
  }
}
