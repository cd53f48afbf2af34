// kv-message — KV_PUSH, KV_PULL and KV_PUSH_PULL: keys with values, between a worker and the server that owns the keys.
//
//   header args   arg0 keyCount k (at least 1)
//                 arg1 width: values per key, 0 when lens are sent or the width is not known
//                 arg2 offset in values of a PIECE of one key   arg3 timestamp of the request, low 32 bits
//   payload       u64 × k keys, strictly ascending │ values │ i32 × k lens (LENS)
//   answer        values │ i32 × k lens (if WANT_LENS); cut into frames, args: u64 totalBytes, u64 offsetBytes
//
// A request to one server is cut into frames of about a block. Keys of at most LARGE_VALUE_BYTES are grouped; a longer
// value travels alone with its key, block by block (PIECE): offset is then a multiple of the block. The first frame of
// a request has FIRST, the last one LAST. A server whose handle wants whole requests answers the others with GATHERED
// and no values, and LAST with WHOLE and all of them.

import { badRequest, type WeighbridgeError } from "../base/errors.ts";
import type { ElementArray } from "../kernel/elements.ts";
import { KEY_BYTES } from "../kernel/elements.ts";
import { APP_CUT, BLOCK_BYTES, type FrameHeader } from "./frame.ts";

export const KvFlag = {
  LENS: 1,
  WANT_LENS: 2,
  LAST: 4,
  PIECE: 8,
  /** Answer: taken; the values come with the answer to LAST. */
  GATHERED: 16,
  /** Answer: the values of all frames of this request to this server. */
  WHOLE: 32,
  /** The keys of this request have lengths of their own; frames that are not a PIECE carry them. */
  VARIABLE: 64,
  FIRST: 128,
} as const;

/** Where the number of the values' type is in the flags. */
export const DTYPE_SHIFT = 8;
export const DTYPE_MASK: number = 0xff00 & ~APP_CUT;

/** The types a value can have. */
export type Values = ElementArray;

export function dtypeBits(dtype: number): number {
  return dtype << DTYPE_SHIFT;
}

export function dtypeOfFlags(flags: number): number {
  return (flags & ~APP_CUT) >> DTYPE_SHIFT;
}

export const LEN_BYTES = 4;
/** Values from this size on are stored and sent in blocks of their own. */
export const LARGE_VALUE_BYTES: number = 16 * 1024;

/** What is wrong with the lens of a request, or undefined. */
export function problemWithLens(lens: Int32Array, keyCount: number, valueCount: number): string | undefined {
  if (lens.length !== keyCount) return `${lens.length} lens for ${keyCount} keys`;
  let sum = 0;
  for (let i = 0; i < lens.length; i++) {
    const length = lens[i] as number;
    if (length < 0) return `the length of key ${i} is ${length}`;
    sum += length;
  }
  return sum === valueCount ? undefined : `lens add up to ${sum}, but there are ${valueCount} values`;
}

/** How many keys with values of this size are sent in one frame. */
export function keysPerFrame(valueBytes: number): number {
  return Math.max(1, Math.floor(BLOCK_BYTES / (KEY_BYTES + LEN_BYTES + valueBytes)));
}

/**
 * Throws BAD_REQUEST when the lengths in a header do not add up to its payload; `sends`: values come with the keys.
 * Reads no key and no value. Numbers are u32, so nothing here can overflow a double.
 */
export function checkKvFrame(header: FrameHeader, elementBytes: number, sends: boolean): void {
  const { arg0: keyCount, arg1: width, arg2: offset, flags, payloadBytes } = header;
  if (keyCount === 0) throw doNotAddUp("a request without keys, as one that its sender has withdrawn");
  if ((flags & KvFlag.PIECE) !== 0) {
    checkPiece(header, elementBytes, sends);
    return;
  }
  if (offset !== 0) throw doNotAddUp(`offset ${offset} outside a piece`);
  if ((flags & KvFlag.LENS) !== 0) {
    const valueBytes = payloadBytes - keyCount * (KEY_BYTES + LEN_BYTES);
    if (!sends) throw doNotAddUp("lengths where none belong");
    if (valueBytes < 0 || valueBytes % elementBytes !== 0) throw doNotAddUp(`${payloadBytes} bytes for ${keyCount} keys and lengths`);
    return;
  }
  if (width === 0 && (sends || (flags & KvFlag.WANT_LENS) === 0)) throw doNotAddUp("no width and no lengths");
  const expected = keyCount * (KEY_BYTES + (sends ? width * elementBytes : 0));
  if (payloadBytes !== expected) throw doNotAddUp(`${payloadBytes} bytes for ${keyCount} keys of ${width} values, which take ${expected}`);
}

function checkPiece({ arg0, arg1: width, arg2: offset, flags, payloadBytes }: FrameHeader, elementBytes: number, sends: boolean): void {
  const blockValues = BLOCK_BYTES / elementBytes;
  if ((flags & KvFlag.LENS) !== 0) throw doNotAddUp("lengths where none belong");
  if (arg0 !== 1 || offset >= width || offset % blockValues !== 0)
    throw doNotAddUp(`a piece of ${arg0} keys at value ${offset} of ${width}`);
  const expected = KEY_BYTES + (sends ? Math.min(blockValues, width - offset) * elementBytes : 0);
  if (payloadBytes !== expected) throw doNotAddUp(`a piece with ${payloadBytes} bytes instead of ${expected}`);
}

export function doNotAddUp(what: string): WeighbridgeError {
  return badRequest(`lengths do not add up: ${what}`);
}

/**
 * The keys, values and lens of a request that comes in several frames, as lists of bytes in the order of the frames. It
 * does not check what the frames say, nor copy: its owner keeps the bytes.
 */
export class KvAssembly {
  readonly keys: Uint8Array[] = [];
  readonly values: Uint8Array[] = [];
  /** Empty unless the keys have lengths of their own. */
  readonly lens: Uint8Array[] = [];

  /** Adds a frame: `keep` appends the bytes of its payload from `from` to `to`, at least one, to a list. */
  add(header: FrameHeader, keep: (list: Uint8Array[], from: number, to: number) => void): void {
    const { arg0: keyCount, arg1: width, arg2: offset, flags, payloadBytes } = header;
    const keyBytes = keyCount * KEY_BYTES;
    const lensBytes = (flags & KvFlag.LENS) === 0 ? 0 : keyCount * LEN_BYTES;
    const valueEnd = payloadBytes - lensBytes;
    if (offset === 0) {
      keep(this.keys, 0, keyBytes);
      if (lensBytes > 0) keep(this.lens, valueEnd, payloadBytes);
      else if ((flags & KvFlag.VARIABLE) !== 0) this.lens.push(new Uint8Array(Int32Array.of(width).buffer));
    }
    if (valueEnd > keyBytes) keep(this.values, keyBytes, valueEnd);
  }
}
