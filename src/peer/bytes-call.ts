// bytes-call — a request whose body and answer are plain bytes: control messages and SimpleApp's. Never on the data plane's hot path.

import type { WeighbridgeError } from "../base/errors.ts";
import type { FrameHeader } from "../wire/frame.ts";
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
  /** The answer; the bytes are the receiver's to keep. A throw fails the call with it. */
  readonly answered: (body: Uint8Array) => void;
  readonly failed: (error: WeighbridgeError) => void;
};

export class BytesCall extends Call {
  readonly #options: BytesCallOptions;

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
    const { body, app, customer, command } = this.#options;
    header.app = app;
    header.customer = customer;
    header.command = command;
    header.payloadBytes = body.length;
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
    this.#options.answered(bytes.slice(at, at + header.payloadBytes));
    return true;
  }

  failed(error: WeighbridgeError): void {
    this.#options.failed(error);
  }

  mustFollow(): boolean {
    return false;
  }
}
