// payload-reader — passes what a ps-lite node sent to the channel: a header, and a payload that is assembled in the
// memory that our node names for it, or in a read buffer. The socket reads long values there directly; only what is
// around them is copied.
//
// Invariants:
//   PayloadReader.R1. The channel is asked once where a payload belongs, and gets it whole.
//   PayloadReader.R2. At most READ_BYTES_MAX of a payload are read at once.
//   PayloadReader.R3. Memory that its owner takes away while a payload is read into it affects nobody else: the rest is
//       read elsewhere, and the call fails.

import { assert } from "../base/assert.ts";
import { IN_PLACE_BYTES_MAX } from "../peer/call.ts";
import type { Channel } from "../peer/channel.ts";
import type { ReadBuffers } from "../peer/connection.ts";
import { FrameHeader } from "../wire/frame.ts";

/** Pushes of 1 MB were 1.16 to 1.38 times as fast as with reads of up to 512 KiB (bench/RESULTS.md). */
const READ_BYTES_MAX = 128 * 1024;
const SMALL_COPY_BYTES = 64;
const NOTHING = new Uint8Array(0);

export class PayloadReader {
  #channel: Channel | undefined;
  #buffers: ReadBuffers | undefined;
  #buffer: Uint8Array = NOTHING;
  /** Of the current payload. */
  readonly #header = new FrameHeader();
  #target: Uint8Array = NOTHING;
  #fill = 0;
  #isInside = false;

  /** True while a payload is read into memory that our node named. */
  get isInside(): boolean {
    return this.#isInside;
  }

  /** The channel of the conversation is linked. */
  open(channel: Channel, buffers: ReadBuffers): void {
    this.#channel = channel;
    this.#buffers = buffers;
    this.#buffer = buffers.take();
  }

  /** It no longer is: what arrives is dropped. */
  close(): void {
    this.#channel = undefined;
    this.#isInside = false;
    if (this.#buffer.length > 0) this.#buffers?.give(this.#buffer);
    this.#buffer = NOTHING;
  }

  /** Delivers a request or an answer without a payload. */
  deliver(header: FrameHeader): void {
    this.#channel?.frame(header, NOTHING, 0);
  }

  /** Delivers a copy of the first `prefixBytes` of `prefix`, followed by `bytes[at … at + byteCount)`. */
  deliverCopy(
    header: FrameHeader,
    prefix: Uint8Array,
    bytes: Uint8Array = NOTHING,
    at = 0,
    byteCount: number = bytes.length,
    prefixBytes: number = prefix.length,
  ): void {
    const channel = this.#channel;
    if (channel === undefined) return;
    header.payloadBytes = prefixBytes + byteCount;
    const target = this.#targetOf(header, channel);
    copyBytes(prefix, 0, prefixBytes, target, 0);
    copyBytes(bytes, at, byteCount, target, prefixBytes);
    channel.frame(header, target, 0);
  }

  /** Begins a payload of `header.payloadBytes` with `prefix`; the rest arrives through `view` and `received`. */
  begin(header: FrameHeader, prefix: Uint8Array): void {
    const channel = this.#channel;
    if (channel === undefined) return;
    assert(!this.#isInside, "one payload at a time");
    this.#header.copyFrom(header);
    this.#target = this.#targetOf(header, channel);
    this.#target.set(prefix);
    this.#fill = prefix.length;
    this.#isInside = true;
  }

  /**
   * Where the next bytes go, and up to `aheadBytes` after the payload if there is room: those are moved out by
   * `received` (ZmtpReader.Z6).
   */
  view(aheadBytes: number): Uint8Array {
    if (!this.#isInside) return new Uint8Array(1024); // what arrives is dropped
    const { payloadBytes } = this.#header;
    if (this.#target.length < payloadBytes) this.#target = new Uint8Array(payloadBytes); // PayloadReader.R3
    const end = Math.min(payloadBytes + aheadBytes, this.#fill + READ_BYTES_MAX, this.#target.length);
    return this.#target.subarray(this.#fill, end);
  }

  /** This many bytes of the payload arrived; returns true after the last: the channel has got it. */
  received(byteCount: number): boolean {
    if (!this.#isInside) return false;
    this.#fill += byteCount;
    if (this.#fill < this.#header.payloadBytes) return false;
    this.#isInside = false;
    this.#channel?.frame(this.#header, this.#target, 0);
    return true;
  }

  /** PayloadReader.R1. The current payload has the buffer; what is delivered meanwhile has memory of its own. */
  #targetOf(header: FrameHeader, channel: Channel): Uint8Array {
    const { payloadBytes } = header;
    const named = payloadBytes > IN_PLACE_BYTES_MAX ? channel.destination(header) : undefined;
    if (named !== undefined && named.length === payloadBytes) return named; // PayloadReader.R3
    return this.#isInside || payloadBytes > this.#buffer.length ? new Uint8Array(payloadBytes) : this.#buffer;
  }
}

/** Delivers a payload that is in memory of its own. */
export function deliver(channel: Channel, header: FrameHeader, payload: Uint8Array): void {
  const named = payload.length > IN_PLACE_BYTES_MAX ? channel.destination(header) : undefined;
  named?.set(payload);
  channel.frame(header, named ?? payload, 0);
}

function copyBytes(source: Uint8Array, from: number, byteCount: number, target: Uint8Array, to: number): void {
  if (byteCount <= SMALL_COPY_BYTES) for (let i = 0; i < byteCount; i++) target[to + i] = source[from + i] as number;
  else target.set(from === 0 && byteCount === source.length ? source : source.subarray(from, from + byteCount), to);
}
