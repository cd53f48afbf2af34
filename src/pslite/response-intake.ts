// response-intake — takes the parts of a ps-lite node's response with values, and answers the frames of our request with them (spec/protocol.md,
// K11: GATHERED, and WHOLE for the last). Which request it is was found by then (asks.ts).
//
// Invariants:
//   I1. Long values go from the socket into the frame that our reader is in the middle of; only short ones are copied.
//   I2. A response whose keys, values or lens do not fit the request fails it; what is left of it is skipped.
//   I3. Where responses are sent again (PS_RESEND), nothing is handed over before all of one is here: it may break off, and come once more.

import { WeighbridgeError } from "../base/errors.ts";
import { BLOCK_BYTES, type FrameHeader, Kind, PAYLOAD_BYTES_MAX } from "../wire/frame.ts";
import { KEY_BYTES, KvFlag, LEN_BYTES } from "../wire/kv-message.ts";
import type { Envoy } from "./envoy.ts";
import { COPY_BYTES_MAX } from "./message-batch.ts";
import { PsType } from "./wire/data-type.ts";
import type { PsMeta } from "./wire/ps-meta.ts";
import type { PartFate, PartSink } from "./wire/zmtp-reader.ts";

/** A request that left, or is being gathered. */
export type Ask = {
  readonly functionId: number;
  readonly place: number;
  readonly timestamp: number;
  /** The numbers of its frames. */
  readonly requests: number[];
  readonly wantsLens: boolean;
  readonly elementBytes: number;
  keyCount: number;
};

const NOTHING = new Uint8Array(0);
/** As long as a part of ps-lite can be: it counts its bytes in an int. */
const KEPT_BYTES_MAX = 2 ** 31 - 1;

export class ResponseIntake implements PartSink {
  readonly #envoy: Envoy;
  #ask: Ask | undefined;
  #isKey64 = true;
  #isLensExpected = false;
  #partIndex = 0;
  #isLastPart = true;
  #valueBytes = 0;
  /** Where in the values the stream is. */
  #offset = 0;
  #frameLeft = 0;
  /** The values, while their lens have to be waited for (I3). */
  #kept: Uint8Array = NOTHING;

  constructor(envoy: Envoy) {
    this.#envoy = envoy;
  }

  begun(ask: Ask, meta: PsMeta): this {
    this.#ask = ask;
    this.#isKey64 = meta.dataTypes[0] === PsType.UINT64;
    this.#isLensExpected = false;
    this.#valueBytes = 0;
    this.#offset = 0;
    return this;
  }

  /** What was being answered when the link or its connection ended. */
  abandon(): Ask | undefined {
    const ask = this.#ask;
    this.#ask = undefined;
    this.#kept = NOTHING;
    return ask;
  }

  begin(index: number, byteCount: number, isLast: boolean): PartFate {
    const ask = this.#ask;
    this.#partIndex = index;
    this.#isLastPart = isLast;
    if (ask === undefined) return "skip";
    if (index === 1) return this.#checkKeys(ask, byteCount) && isLast ? this.#endAndSkip() : "skip";
    if (index === 2) {
      this.#valueBytes = byteCount;
      this.#isLensExpected = ask.wantsLens;
      if (this.#isKeeping && byteCount > KEPT_BYTES_MAX) {
        this.#fail(`${this.#envoy.name} answered with ${byteCount} bytes of values, which is too long for PS_RESEND`);
        this.#ask = undefined;
        return "skip";
      }
      if (this.#isKeeping) return "whole";
      this.#beginAnswer(ask);
      if (byteCount <= COPY_BYTES_MAX) return "whole";
      this.#nextFrame(ask);
      return "stream";
    }
    return index === 3 && this.#isLensExpected ? "whole" : "skip";
  }

  whole(bytes: Uint8Array, at: number, byteCount: number): void {
    const ask = this.#ask;
    if (ask === undefined) return;
    if (this.#isKeeping) {
      this.#keep(ask, bytes, at, byteCount);
      return;
    }
    if (this.#partIndex === 2) {
      if (byteCount > 0 || this.#total(ask) === 0) this.#stage(ask, bytes, at, byteCount);
      this.#offset = byteCount;
      if (this.#isLastPart) this.#endValues(ask);
      else if (!this.#isLensExpected) this.#ask = undefined;
      return;
    }
    if (byteCount === ask.keyCount * LEN_BYTES) this.#stageLens(ask, bytes.subarray(at, at + byteCount));
    else this.#fail(`${byteCount} bytes of lens for ${ask.keyCount} keys`);
    this.#ask = undefined;
  }

  get #isKeeping(): boolean {
    return this.#envoy.host.resender !== undefined;
  }

  /** I3 */
  #keep(ask: Ask, bytes: Uint8Array, at: number, byteCount: number): void {
    const isLens = this.#partIndex === 3;
    if (!isLens && this.#isLensExpected && !this.#isLastPart) {
      this.#kept = bytes.slice(at, at + byteCount);
      return;
    }
    const values = isLens ? this.#kept : bytes.subarray(at, at + byteCount);
    this.#kept = NOTHING;
    if (isLens && byteCount !== ask.keyCount * LEN_BYTES) this.#fail(`${byteCount} bytes of lens for ${ask.keyCount} keys`);
    else {
      this.#beginAnswer(ask);
      if (values.length > 0 || this.#total(ask) === 0) this.#stageLong(ask, values, 0);
      if (isLens) this.#stageLong(ask, bytes.subarray(at, at + byteCount), values.length);
      else this.#endValues(ask);
    }
    this.#ask = undefined;
  }

  view(): Uint8Array {
    return this.#envoy.feed?.view(0) ?? new Uint8Array(COPY_BYTES_MAX); // without a link what comes is dropped
  }

  streamed(byteCount: number): void {
    const ask = this.#ask;
    const { feed } = this.#envoy;
    if (ask === undefined || feed === undefined) return;
    this.#offset += byteCount;
    this.#frameLeft = feed.streamed(byteCount);
    if (this.#frameLeft > 0) return;
    if (this.#offset < this.#valueBytes) this.#nextFrame(ask);
    else if (this.#isLastPart) this.#endValues(ask);
    else if (!this.#isLensExpected) this.#ask = undefined;
  }

  /** The response has no parts at all. */
  endWithout(): void {
    const ask = this.#ask;
    if (ask === undefined) return;
    this.#beginAnswer(ask);
    this.#stage(ask, new Uint8Array(0), 0, 0);
    this.#ask = undefined;
  }

  #endAndSkip(): PartFate {
    this.endWithout();
    return "skip";
  }

  #checkKeys(ask: Ask, byteCount: number): boolean {
    if (this.#isKey64 && byteCount === ask.keyCount * KEY_BYTES) return true;
    const { name } = this.#envoy;
    if (this.#isKey64) this.#fail(`${name} answered with ${byteCount / KEY_BYTES} keys, but was asked for ${ask.keyCount}`);
    else this.#fail(`${name} has keys of 32 bits (USE_KEY32); Weighbridge has 64: build it without`);
    this.#ask = undefined;
    return false;
  }

  #fail(what: string): void {
    const ask = this.#ask;
    if (ask === undefined) return;
    const error = new WeighbridgeError("BAD_REQUEST", what);
    for (const request of ask.requests) this.#envoy.failRequest({ functionId: ask.functionId, request }, error);
  }

  #total(ask: Ask): number {
    return this.#valueBytes + (ask.wantsLens ? ask.keyCount * LEN_BYTES : 0);
  }

  /** All frames but the last are only told that they were taken (K11). */
  #beginAnswer({ functionId, requests }: Ask): void {
    const { header, feed } = this.#envoy;
    for (let i = 0; i < requests.length - 1; i++) {
      header.reset(Kind.REPLY, functionId);
      header.request = requests[i] as number;
      header.flags = KvFlag.GATHERED;
      feed?.begin(header);
    }
  }

  #answerHeader(ask: Ask, payloadBytes: number, offset: number): FrameHeader {
    const { header } = this.#envoy;
    const total = this.#total(ask);
    header.reset(Kind.REPLY, ask.functionId);
    header.request = ask.requests[ask.requests.length - 1] as number;
    header.flags = KvFlag.WHOLE;
    header.payloadBytes = payloadBytes;
    header.arg0 = total >>> 0;
    header.arg1 = Math.floor(total / 2 ** 32);
    header.arg2 = offset >>> 0;
    header.arg3 = Math.floor(offset / 2 ** 32);
    return header;
  }

  #stage(ask: Ask, bytes: Uint8Array, at: number, byteCount: number): void {
    const { feed } = this.#envoy;
    if (feed === undefined) return;
    const to = feed.begin(this.#answerHeader(ask, byteCount, 0));
    const { stageBytes } = feed;
    if (byteCount <= 32) for (let i = 0; i < byteCount; i++) stageBytes[to + i] = bytes[at + i] as number;
    else stageBytes.set(bytes.subarray(at, at + byteCount), to);
  }

  #nextFrame(ask: Ask): void {
    const byteCount = Math.min(PAYLOAD_BYTES_MAX, this.#valueBytes - this.#offset);
    this.#frameLeft = byteCount;
    this.#envoy.feed?.open(this.#answerHeader(ask, byteCount, this.#offset), NOTHING);
  }

  /** The values were the last part: whoever wants lengths gets even ones. */
  #endValues(ask: Ask): void {
    if (this.#isLensExpected) {
      const width = this.#valueBytes / ask.elementBytes / ask.keyCount;
      if (Number.isInteger(width)) this.#stageLens(ask, bytesOf(new Int32Array(ask.keyCount).fill(width)));
      else this.#fail(`${this.#valueBytes} bytes of values without lens for ${ask.keyCount} keys`);
    }
    this.#ask = undefined;
  }

  #stageLens(ask: Ask, lens: Uint8Array): void {
    this.#stageLong(ask, lens, this.#valueBytes);
  }

  /** Bytes of any length that begin so far into the answer, as copies. */
  #stageLong(ask: Ask, bytes: Uint8Array, offset: number): void {
    for (let from = 0; from === 0 || from < bytes.length; from += BLOCK_BYTES) {
      const part = bytes.subarray(from, from + BLOCK_BYTES);
      this.#envoy.feed?.put(this.#answerHeader(ask, part.length, offset + from), part);
    }
  }
}

function bytesOf(array: Int32Array): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}
