// kv-landing — puts together an answer to a kv call that does not simply fill the caller's array: one in several
// frames, or of a length that the caller did not know.
//
// Invariants (K1 and K2 are the call's, kv-request.ts):
//   KvLanding.K3. An answer in several frames is never put together of two: when the call left again, a new one is made
//       and the frames so far do not count. (A WHOLE answer is kept by the server and always the same.)
//   KvLanding.K4. Room for an answer of unknown length is made as it comes, at most twice what has come: what a server
//       announces costs nothing.

import { assert } from "../base/assert.ts";
import { bytesOf } from "../base/bytes.ts";
import { asError, badRequest, WeighbridgeError } from "../base/errors.ts";
import { IN_PLACE_BYTES_MAX } from "../peer/call.ts";
import { type FrameHeader, offsetBytesOf, totalBytesOf } from "../wire/frame.ts";
import { KvFlag, LEN_BYTES, type Values } from "../wire/kv-message.ts";
import { CallerArray } from "./caller-array.ts";

/** Up to here the room for an answer of unknown length is made at once. */
const LANDING_BYTES_MIN = 64 * 1024 * 1024;

/** Frames of an answer in several, and for which sending of the call. */
type Arrived = { readonly sendCount: number; readonly totalBytes: number; readonly offsets: Set<number>; byteCount: number };

/** A variable-length answer for these keys, as it landed: values, then lens. */
export type Landing = { readonly keyFrom: number; readonly keyTo: number; readonly bytes: Uint8Array };

/**
 * A float view of the buffer answers were last read from: making one per tiny answer would cost more than the answer.
 */
export class FloatWindow {
  #bytes: Uint8Array | undefined;
  #floats: Float32Array = new Float32Array(0);

  over(bytes: Uint8Array): Float32Array {
    if (bytes !== this.#bytes) {
      this.#bytes = bytes;
      this.#floats = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength >> 2);
    }
    return this.#floats;
  }
}

export class KvLanding {
  #room: Uint8Array | undefined;
  /** How long the answer says it is. */
  #roomTotal = 0;
  /** What has come of an answer in several frames. */
  #arrived: Arrived | undefined;

  /** A part of an answer of unknown length: has landed, or is small and is copied there (K4). Throws BAD_FRAME. */
  take(header: FrameHeader, bytes: Uint8Array, at: number): void {
    const { payloadBytes } = header;
    const total = totalBytesOf(header);
    const offset = offsetBytesOf(header);
    const isInPlace = payloadBytes <= IN_PLACE_BYTES_MAX;
    const room = isInPlace ? this.roomFor(total, offset + payloadBytes) : this.#room;
    if ((room?.length ?? 0) < offset + payloadBytes)
      throw new WeighbridgeError("BAD_FRAME", `a part of an answer begins at byte ${offset} of ${total}, far ahead of those before it`);
    if (isInPlace) room?.set(bytes.subarray(at, at + payloadBytes), offset);
  }

  /** Where an answer of unknown length lands, with room up to `end`; undefined when that is too much (K4). */
  roomFor(total: number, end: number): Uint8Array | undefined {
    const room = this.#roomTotal === total ? this.#room : undefined;
    if (room !== undefined && room.length >= end) return room;
    const arrivedBytes = this.#arrived?.totalBytes === total ? this.#arrived.byteCount : 0;
    const roomBytesMax = Math.max(2 * arrivedBytes, LANDING_BYTES_MIN);
    if (end > roomBytesMax) return undefined;
    const grown = new Uint8Array(Math.min(total, roomBytesMax));
    if (room !== undefined) grown.set(room);
    this.#room = grown;
    this.#roomTotal = total;
    return grown;
  }

  /** The answer of unknown length, all of which has come. */
  whole(total: number): Uint8Array {
    const bytes = total === 0 ? new Uint8Array(0) : this.#room;
    assert(bytes?.length === total, "the last part to come made room for the whole");
    return bytes;
  }

  /** Counts a frame of an answer, once; true when all have come (K3). `sendCount`: how often the call has left. */
  isLast(header: FrameHeader, sendCount: number): boolean {
    const totalBytes = totalBytesOf(header);
    const offset = offsetBytesOf(header);
    const sending = (header.flags & KvFlag.WHOLE) === 0 ? sendCount : 0;
    let arrived = this.#arrived;
    if (arrived === undefined || arrived.sendCount !== sending || arrived.totalBytes !== totalBytes) {
      arrived = { sendCount: sending, totalBytes, offsets: new Set(), byteCount: 0 };
      this.#arrived = arrived;
    }
    if (arrived.offsets.has(offset)) return false;
    arrived.offsets.add(offset);
    arrived.byteCount += header.payloadBytes;
    return arrived.byteCount >= totalBytes;
  }
}

/** What `fill` throws, as the failure of its request. */
export function fillFailure(
  fill: ((landings: readonly Landing[]) => void) | undefined,
  landings: readonly Landing[] = [],
): WeighbridgeError | undefined {
  try {
    fill?.(landings);
    return undefined;
  } catch (thrown) {
    return asError(thrown, "BAD_REQUEST");
  }
}

/**
 * Fills the caller's arrays. Throws VALUE_LENGTH if `vals` is too short, BUFFER_DETACHED if one was transferred away
 * meanwhile.
 */
export function fillCallerArrays(vals: Values, lens: Int32Array): (landings: readonly Landing[]) => void {
  const callerArrays = [new CallerArray(vals), new CallerArray(lens)];
  return (landings) => {
    for (const array of callerArrays) array.check("a pull", false);
    fillFromLandings(landings, lens, (count) => {
      if (count > vals.length) throw new WeighbridgeError("VALUE_LENGTH", `${count} values came, but there is room for ${vals.length}`);
      return vals;
    });
  };
}

/**
 * Puts all answers to a pull of unknown lengths in the order of their keys: fills `lens`, asks `room` for an array for
 * all values together, and fills that from its start. Throws BAD_REQUEST when an answer's lens do not fit its values.
 */
export function fillFromLandings<V extends Values>(landings: readonly Landing[], lens: Int32Array, room: (valueCount: number) => V): V {
  const ordered = [...landings].sort((a, b) => a.keyFrom - b.keyFrom);
  const valueCounts = ordered.map((landing) => readLens(landing, lens));
  const vals = room(valueCounts.reduce((sum, count) => sum + count, 0));
  const target = bytesOf(vals);
  let at = 0;
  for (const [i, { keyFrom, keyTo, bytes }] of ordered.entries()) {
    const valueBytes = bytes.length - (keyTo - keyFrom) * LEN_BYTES;
    const expectedBytes = (valueCounts[i] as number) * vals.BYTES_PER_ELEMENT;
    if (valueBytes !== expectedBytes) throw badRequest(`an answer of ${valueBytes} bytes of values whose lens make ${expectedBytes}`);
    target.set(bytes.subarray(0, valueBytes), at);
    at += valueBytes;
  }
  return vals;
}

/** Copies the lens of one answer, and returns their sum. */
function readLens({ keyFrom, keyTo, bytes }: Landing, lens: Int32Array): number {
  const lensBytes = (keyTo - keyFrom) * LEN_BYTES;
  if (bytes.length < lensBytes) throw badRequest(`an answer of ${bytes.length} bytes for ${keyTo - keyFrom} keys`);
  const theirs = new DataView(bytes.buffer, bytes.byteOffset + bytes.length - lensBytes, lensBytes);
  let sum = 0;
  for (let key = keyFrom; key < keyTo; key++) {
    const length = theirs.getInt32((key - keyFrom) * LEN_BYTES, true);
    if (length < 0) throw badRequest(`an answer says that a key has ${length} values`);
    lens[key] = length;
    sum += length;
  }
  return sum;
}
