// long-meta — the meta of a message whose SimpleApp body is longer than this node keeps: the body is skipped as it
// arrives, and the rest is read, so that the request can be answered. ps-lite writes the body near the beginning, after
// the head (PsMeta.P1).
//
// Invariants:
//   LongMeta.M1. It costs END_BYTES of memory and VIEW_BYTES to read into, however long the body is.

import { decodeMeta, type PsMeta } from "./wire/ps-meta.ts";
import { badZmtp } from "./wire/zmtp.ts";

const BODY_TAG = 0x12;
const HEAD_TAG = 0x08;
/** What precedes a body, and its length. */
const BEGIN_BYTES = 32;
/** More than the rest of a meta without nodes. */
const END_BYTES = 4096;
const VIEW_BYTES = 64 * 1024;

export class LongMeta {
  readonly #byteCount: number;
  readonly #view = new Uint8Array(VIEW_BYTES);
  readonly #begin = new Uint8Array(BEGIN_BYTES);
  /** The last bytes that arrived. */
  #end: Uint8Array = new Uint8Array(0);
  #arrivedBytes = 0;

  constructor(byteCount: number) {
    this.#byteCount = byteCount;
  }

  view(): Uint8Array {
    return this.#view;
  }

  /** This many bytes arrived; returns true after the last. */
  streamed(byteCount: number): boolean {
    const bytes = this.#view.subarray(0, byteCount);
    if (this.#arrivedBytes < BEGIN_BYTES) this.#begin.set(bytes.subarray(0, BEGIN_BYTES - this.#arrivedBytes), this.#arrivedBytes);
    this.#arrivedBytes += byteCount;
    const kept = Math.min(END_BYTES, this.#end.length + byteCount);
    const joined = new Uint8Array(kept);
    const fromView = Math.min(byteCount, kept);
    joined.set(this.#end.subarray(this.#end.length - (kept - fromView)));
    joined.set(bytes.subarray(byteCount - fromView), kept - fromView);
    this.#end = joined;
    return this.#arrivedBytes === this.#byteCount;
  }

  /** Reads all but the body. Throws BAD_FRAME if another field is that long. */
  readInto(meta: PsMeta): void {
    const { at, bodyBytes, restFrom } = this.#findBody();
    const restBytes = this.#byteCount - restFrom;
    if (bodyBytes === 0 || restBytes < 0 || restBytes > this.#end.length)
      throw badZmtp(`a message that begins with ${this.#byteCount} bytes`);
    const bytes = new Uint8Array(at + restBytes);
    bytes.set(this.#begin.subarray(0, at));
    bytes.set(this.#end.subarray(this.#end.length - restBytes), at);
    decodeMeta(bytes, 0, bytes.length, meta);
    meta.skippedBytes = bodyBytes;
  }

  /** Where the body's tag is, how long the body is, and where the rest begins. */
  #findBody(): { readonly at: number; readonly bodyBytes: number; readonly restFrom: number } {
    const head = this.#begin[0] === HEAD_TAG ? this.#varint(1) : { value: 0, end: 0 };
    const at = head.end;
    if (this.#begin[at] !== BODY_TAG) return { at, bodyBytes: 0, restFrom: 0 };
    const { value, end } = this.#varint(at + 1);
    return { at, bodyBytes: value, restFrom: end + value };
  }

  #varint(at: number): { readonly value: number; readonly end: number } {
    let value = 0;
    for (let i = 0; i < 10; i++) {
      const byte = this.#begin[at + i] ?? 0;
      value += (byte & 0x7f) * 2 ** (7 * i);
      if (byte < 0x80) return { value, end: at + i + 1 };
    }
    return { value: 0, end: at };
  }
}
