// answer-landing — assembles the answer to one call: in the caller's array, or in memory that grows as the answer
// comes. A kv call has one for an answer of unknown length, and to count frames that it puts into several arrays itself
// (worker/kv-frame.ts).
//
// Invariants:
//   AnswerLanding.L1. An answer lands in the caller's array only if it has exactly that length.
//   AnswerLanding.L2. Frames of two answers are never mixed. When the call is sent again, the frames so far do not
//       count, unless the server keeps its answers and repeats the same bytes.
//   AnswerLanding.L3. Memory for an answer of unknown length grows as it comes, to at most twice what has come: the
//       length that a server claims costs nothing.

import { WeighbridgeError } from "../base/errors.ts";
import { type FrameHeader, offsetBytesOf, totalBytesOf } from "../wire/frame.ts";
import { IN_PLACE_BYTES_MAX } from "./call.ts";

/** Up to here the room for an answer of unknown length is made at once. */
const ROOM_BYTES_MIN = 64 * 1024 * 1024;
const NO_BYTES = new Uint8Array(0);

/** VALUE_LENGTH: so many bytes of values came. `what`: for which keys, with a blank before it, or "". */
export function answerLengthError(actualBytes: number, expectedBytes: number, elementBytes: number, what = ""): WeighbridgeError {
  const [actual, expected] = [actualBytes, expectedBytes].map((bytes) => `${bytes / elementBytes}`);
  const message = `${actual} values (${actualBytes} bytes) came${what}; ${expected} (${expectedBytes} bytes) were expected`;
  return new WeighbridgeError("VALUE_LENGTH", message);
}

export class AnswerLanding {
  readonly #into: Uint8Array | undefined;
  readonly #isKept: boolean;
  #room: Uint8Array | undefined;
  #total = -1;
  #sendCount = 0;
  #arrivedBytes = 0;
  readonly #offsets = new Set<number>();

  /** `into` is the caller's array, if any. `isKept`: the server answers a repeated call with the same bytes. */
  constructor(into: Uint8Array | undefined, isKept: boolean) {
    this.#into = into;
    this.#isKept = isKept;
  }

  /** Where the payload of this frame belongs; undefined leaves it in the read buffer. */
  destination(header: FrameHeader): Uint8Array | undefined {
    const { payloadBytes } = header;
    const offset = offsetBytesOf(header);
    const end = offset + payloadBytes;
    const total = totalBytesOf(header);
    if (payloadBytes <= IN_PLACE_BYTES_MAX || end > total) return undefined; // `take` says what is wrong with it
    return this.#roomFor(total, end)?.subarray(offset, end);
  }

  /** Adds a frame. Returns the whole answer after the last one. Throws BAD_FRAME or VALUE_LENGTH for an illegal one. */
  take(header: FrameHeader, bytes: Uint8Array, at: number, sendCount: number): Uint8Array | undefined {
    const { payloadBytes } = header;
    const total = totalBytesOf(header);
    const offset = offsetBytesOf(header);
    const end = offset + payloadBytes;
    if (end > total) throw new WeighbridgeError("BAD_FRAME", "an answer reaches beyond its own end");
    if (this.#into !== undefined && total !== this.#into.length) {
      // AnswerLanding.L1
      throw new WeighbridgeError("VALUE_LENGTH", `an answer of ${total} bytes came; there is room for exactly ${this.#into.length}`);
    }
    if (total === 0) return this.#into ?? NO_BYTES;
    if (payloadBytes === 0) throw new WeighbridgeError("BAD_FRAME", "a part of an answer is empty");
    const room = this.#roomFor(total, end);
    if (room === undefined)
      throw new WeighbridgeError("BAD_FRAME", `a part of an answer begins at byte ${offset} of ${total}, far ahead of those before it`);
    if (payloadBytes <= IN_PLACE_BYTES_MAX) room.set(bytes.subarray(at, at + payloadBytes), offset);
    return this.isLast(header, sendCount) ? room : undefined;
  }

  /** Counts a frame, once; true when all have come (AnswerLanding.L2). `sendCount`: how often the call has left. */
  isLast(header: FrameHeader, sendCount: number): boolean {
    const { payloadBytes } = header;
    const total = totalBytesOf(header);
    const offset = offsetBytesOf(header);
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

  /** AnswerLanding.L3 */
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
