// bytes-call — a request whose body and answer are plain bytes: control messages and SimpleApp's. Never on the data plane's hot path.
//
// Invariants:
//   B1. An answer in several frames is put together by where they belong, each once, however often they come; at most BODY_BYTES_MAX of it.

import { WeighbridgeError } from "../base/errors.ts";
import { joinBytes } from "../base/join-bytes.ts";
import type { FrameHeader } from "../wire/frame.ts";
import { BODY_BYTES_MAX, bodyTooLong } from "../wire/simple-frame.ts";
import { offsetBytesOf, totalBytesOf } from "./answer.ts";
import { Call } from "./call.ts";
import { type FrameBatch, INLINE_BYTES_MAX } from "./frame-batch.ts";

export type BytesCallOptions = {
  readonly functionId: number;
  readonly priority: number;
  /** Changes state at the receiver, and must be taken exactly once even by one that restarted: fails then instead. */
  readonly isUpdate: boolean;
  readonly app: number;
  readonly customer: number;
  readonly command: number;
  readonly body: Uint8Array;
  /** Of a body in several frames: what this one says of itself. */
  readonly part?: { readonly flags: number; readonly number: number; readonly from: number; readonly totalBytes: number };
  /** The answer; the bytes are the receiver's to keep. A throw fails the call with it. */
  readonly answered: (body: Uint8Array) => void;
  readonly failed: (error: WeighbridgeError) => void;
};

export class BytesCall extends Call {
  readonly #options: BytesCallOptions;
  /** What has come of an answer in several frames, by where it belongs. */
  readonly #parts = new Map<number, Uint8Array>();
  #arrivedBytes = 0;

  constructor(options: BytesCallOptions) {
    super(options.priority);
    this.#options = options;
  }

  get functionId(): number {
    return this.#options.functionId;
  }

  get isUpdate(): boolean {
    return this.#options.isUpdate;
  }

  get isIdempotent(): boolean {
    return !this.#options.isUpdate;
  }

  get isRead(): boolean {
    return false;
  }

  get byteCount(): number {
    return this.#options.body.length;
  }

  encode(header: FrameHeader, batch: FrameBatch): void {
    const { body, app, customer, command, part } = this.#options;
    header.app = app;
    header.customer = customer;
    header.command = command;
    header.payloadBytes = body.length;
    if (part !== undefined) {
      header.flags = part.flags;
      header.arg1 = part.number;
      header.arg2 = part.from;
      header.arg3 = part.totalBytes;
    }
    if (body.length <= INLINE_BYTES_MAX) {
      const at = batch.begin(header, body.length);
      batch.page.bytes.set(body, at);
    } else {
      batch.begin(header, 0);
      batch.attach(body);
      batch.pad(body.length);
    }
  }

  /** Bodies are this node's own memory. */
  get isIntact(): boolean {
    return true;
  }

  encodeWithdrawn(header: FrameHeader, batch: FrameBatch): void {
    this.encode(header, batch);
  }

  destination(): undefined {
    return undefined;
  }

  answered(header: FrameHeader, bytes: Uint8Array, at: number): boolean {
    const payload = bytes.slice(at, at + header.payloadBytes);
    const whole = totalBytesOf(header) > payload.length ? this.#wholeWith(header, payload) : payload;
    if (whole === undefined) return false;
    this.#options.answered(whole);
    return true;
  }

  /** B1 */
  #wholeWith(header: FrameHeader, payload: Uint8Array): Uint8Array | undefined {
    const totalBytes = totalBytesOf(header);
    const offset = offsetBytesOf(header);
    if (totalBytes > BODY_BYTES_MAX) throw new WeighbridgeError("BAD_FRAME", bodyTooLong(totalBytes));
    if (payload.length === 0 || offset + payload.length > totalBytes)
      throw new WeighbridgeError("BAD_FRAME", `${payload.length} bytes at ${offset} of an answer of ${totalBytes}`);
    if (!this.#parts.has(offset)) this.#arrivedBytes += payload.length;
    this.#parts.set(offset, payload);
    if (this.#arrivedBytes < totalBytes) return undefined;
    const inOrder = [...this.#parts].sort(([a], [b]) => a - b);
    return joinBytes(inOrder.map(([, part]) => part));
  }

  failed(error: WeighbridgeError): void {
    this.#options.failed(error);
  }

  mustFollow(): boolean {
    return false;
  }
}
