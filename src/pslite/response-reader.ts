// response-reader — reads the parts of a ps-lite node's response with values, and answers the frames of our request
// with them (spec/protocol.md, K11: GATHERED, and WHOLE for the last). client-requests.ts has found the request.
//
// Invariants:
//   ResponseReader.I1. The socket reads long values into the caller's array; only short ones are copied.
//   ResponseReader.I2. A response whose keys, values or lens do not fit the request fails it; the rest of it is
//       skipped.
//   ResponseReader.I3. If responses are resent (PS_RESEND), nothing is delivered before all of one has arrived: it may
//       break off, and arrive once more.

import { badRequest } from "../base/errors.ts";
import { KEY_BYTES } from "../kernel/elements.ts";
import { BLOCK_BYTES, type FrameHeader, Kind, PAYLOAD_BYTES_MAX, setExtent } from "../wire/frame.ts";
import { KvFlag, LEN_BYTES } from "../wire/kv-message.ts";
import type { Conversation } from "./conversation.ts";
import { COPY_BYTES_MAX } from "./message-batch.ts";
import { PsType } from "./wire/data-type.ts";
import { PART_BYTES_MAX, type PsMeta } from "./wire/ps-meta.ts";
import type { PartFate, PartSink } from "./wire/zmtp-reader.ts";

/** A request that left, or is being assembled. */
export type OpenRequest = {
  readonly functionId: number;
  /** Its application and customer, as one number. */
  readonly customer: number;
  readonly timestamp: number;
  /** The numbers of its frames. */
  readonly requests: number[];
  readonly wantsLens: boolean;
  readonly elementBytes: number;
  keyCount: number;
};

const NOTHING = new Uint8Array(0);

export class ResponseReader implements PartSink {
  readonly #conversation: Conversation;
  #open: OpenRequest | undefined;
  #isKey64 = true;
  #isLensExpected = false;
  #partIndex = 0;
  #isLastPart = true;
  #valueBytes = 0;
  /** The position of the stream in the values. */
  #offset = 0;
  /** The values, while they wait for their lens (ResponseReader.I3). */
  #kept: Uint8Array = NOTHING;

  constructor(conversation: Conversation) {
    this.#conversation = conversation;
  }

  begun(open: OpenRequest, meta: PsMeta): this {
    this.#open = open;
    this.#isKey64 = meta.dataTypes[0] === PsType.UINT64;
    this.#isLensExpected = false;
    this.#valueBytes = 0;
    this.#offset = 0;
    return this;
  }

  /** The request that was being answered when the link or its connection ended. */
  abandon(): OpenRequest | undefined {
    const open = this.#open;
    this.#open = undefined;
    this.#kept = NOTHING;
    return open;
  }

  begin(index: number, byteCount: number, isLast: boolean): PartFate {
    const open = this.#open;
    this.#partIndex = index;
    this.#isLastPart = isLast;
    if (open === undefined) return "skip";
    if (index === 1) return this.#checkKeys(open, byteCount) && isLast ? this.#endAndSkip() : "skip";
    if (index === 2) {
      this.#valueBytes = byteCount;
      this.#isLensExpected = open.wantsLens;
      if (this.#isKeeping && byteCount > PART_BYTES_MAX) {
        this.#fail(`${this.#conversation.name} answered with ${byteCount} bytes of values, which is too long for PS_RESEND`);
        this.#open = undefined;
        return "skip";
      }
      if (this.#isKeeping) return "whole";
      this.#beginAnswer(open);
      if (byteCount <= COPY_BYTES_MAX) return "whole";
      this.#nextFrame(open);
      return "stream";
    }
    return index === 3 && this.#isLensExpected ? "whole" : "skip";
  }

  whole(bytes: Uint8Array, at: number, byteCount: number): void {
    const open = this.#open;
    if (open === undefined) return;
    if (this.#isKeeping) {
      this.#keep(open, bytes, at, byteCount);
      return;
    }
    if (this.#partIndex === 2) {
      if (byteCount > 0 || this.#total(open) === 0) this.#stage(open, bytes, at, byteCount);
      this.#offset = byteCount;
      if (this.#isLastPart) this.#endValues(open);
      else if (!this.#isLensExpected) this.#open = undefined;
      return;
    }
    if (byteCount === open.keyCount * LEN_BYTES) this.#stageLong(open, bytes.subarray(at, at + byteCount), this.#valueBytes);
    else this.#fail(`${byteCount} bytes of lens for ${open.keyCount} keys`);
    this.#open = undefined;
  }

  get #isKeeping(): boolean {
    return this.#conversation.host.resender !== undefined;
  }

  /** ResponseReader.I3 */
  #keep(open: OpenRequest, bytes: Uint8Array, at: number, byteCount: number): void {
    const isLens = this.#partIndex === 3;
    if (!isLens && this.#isLensExpected && !this.#isLastPart) {
      this.#kept = bytes.slice(at, at + byteCount);
      return;
    }
    const values = isLens ? this.#kept : bytes.subarray(at, at + byteCount);
    this.#kept = NOTHING;
    if (isLens && byteCount !== open.keyCount * LEN_BYTES) this.#fail(`${byteCount} bytes of lens for ${open.keyCount} keys`);
    else {
      this.#beginAnswer(open);
      if (values.length > 0 || this.#total(open) === 0) this.#stageLong(open, values, 0);
      if (isLens) this.#stageLong(open, bytes.subarray(at, at + byteCount), values.length);
      else this.#endValues(open);
    }
    this.#open = undefined;
  }

  view(): Uint8Array {
    return this.#conversation.payload.view(0);
  }

  streamed(byteCount: number): void {
    const open = this.#open;
    this.#offset += byteCount;
    if (!this.#conversation.payload.received(byteCount) || open === undefined) return;
    if (this.#offset < this.#valueBytes) this.#nextFrame(open);
    else if (this.#isLastPart) this.#endValues(open);
    else if (!this.#isLensExpected) this.#open = undefined;
  }

  /** The response has no parts at all. */
  endWithout(): void {
    const open = this.#open;
    if (open === undefined) return;
    this.#beginAnswer(open);
    this.#stage(open, new Uint8Array(0), 0, 0);
    this.#open = undefined;
  }

  #endAndSkip(): PartFate {
    this.endWithout();
    return "skip";
  }

  #checkKeys(open: OpenRequest, byteCount: number): boolean {
    if (this.#isKey64 && byteCount === open.keyCount * KEY_BYTES) return true;
    const { name } = this.#conversation;
    if (this.#isKey64) this.#fail(`${name} answered with ${byteCount / KEY_BYTES} keys, but ${open.keyCount} were requested`);
    else this.#fail(`${name} has keys of 32 bits (USE_KEY32); Weighbridge has 64: build it without`);
    this.#open = undefined;
    return false;
  }

  #fail(what: string): void {
    const open = this.#open;
    if (open === undefined) return;
    const error = badRequest(what);
    for (const request of open.requests) this.#conversation.fail(request, error);
  }

  #total(open: OpenRequest): number {
    return this.#valueBytes + (open.wantsLens ? open.keyCount * LEN_BYTES : 0);
  }

  /** All frames but the last are only acknowledged (spec/protocol.md, K11). */
  #beginAnswer({ functionId, requests }: OpenRequest): void {
    const { header, payload } = this.#conversation;
    for (let i = 0; i < requests.length - 1; i++) {
      header.reset(Kind.REPLY, functionId);
      header.request = requests[i] as number;
      header.flags = KvFlag.GATHERED;
      payload.deliver(header);
    }
  }

  #answerHeader(open: OpenRequest, payloadBytes: number, offset: number): FrameHeader {
    const { header } = this.#conversation;
    header.reset(Kind.REPLY, open.functionId);
    header.request = open.requests[open.requests.length - 1] as number;
    header.flags = KvFlag.WHOLE;
    header.payloadBytes = payloadBytes;
    setExtent(header, this.#total(open), offset);
    return header;
  }

  #stage(open: OpenRequest, bytes: Uint8Array, at: number, byteCount: number): void {
    this.#conversation.payload.deliverCopy(this.#answerHeader(open, byteCount, 0), NOTHING, bytes, at, byteCount);
  }

  #nextFrame(open: OpenRequest): void {
    const byteCount = Math.min(PAYLOAD_BYTES_MAX, this.#valueBytes - this.#offset);
    this.#conversation.payload.begin(this.#answerHeader(open, byteCount, this.#offset), NOTHING);
  }

  /** The values were the last part: a request for lens gets equal ones. */
  #endValues(open: OpenRequest): void {
    if (this.#isLensExpected) {
      const width = this.#valueBytes / open.elementBytes / open.keyCount;
      if (Number.isInteger(width))
        this.#stageLong(open, new Uint8Array(new Int32Array(open.keyCount).fill(width).buffer), this.#valueBytes);
      else this.#fail(`${this.#valueBytes} bytes of values without lens for ${open.keyCount} keys`);
    }
    this.#open = undefined;
  }

  /** Copies bytes of any length, which begin at this offset of the answer. */
  #stageLong(open: OpenRequest, bytes: Uint8Array, offset: number): void {
    for (let from = 0; from === 0 || from < bytes.length; from += BLOCK_BYTES) {
      const part = bytes.subarray(from, from + BLOCK_BYTES);
      this.#conversation.payload.deliverCopy(this.#answerHeader(open, part.length, offset + from), part);
    }
  }
}
