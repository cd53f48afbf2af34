// part-call — one part of an operation on its way to another worker. Its payload is the caller's memory, so when the
// operation has failed the part leaves as the reason instead: what the caller writes there afterwards never gets out
// (Operation.O2).

import type { WeighbridgeError } from "../../base/errors.ts";
import { collectivePart } from "../../contracts/collective.ts";
import { Call, detachedError } from "../../peer/call.ts";
import { type FrameBatch, INLINE_BYTES_MAX } from "../../peer/frame-batch.ts";
import { writeFrame } from "../../peer/function-call.ts";
import { CollectiveKind } from "../../wire/collective-frame.ts";
import type { FrameHeader } from "../../wire/frame.ts";
import { encodeJson } from "../../wire/json-body.ts";
import type { PartLabel } from "./operation.ts";

/** Operations wait for each other at every member: what reduces leaves before what is only stored. */
const PART_PRIORITY = 0;

export type PartCallOptions = {
  readonly label: PartLabel;
  readonly payload: Uint8Array;
  /** What it fails with, here and at the receiver, when the payload's memory is gone. */
  readonly detached?: (() => WeighbridgeError) | undefined;
  readonly acknowledged: (call: PartCall) => void;
  readonly failed: (call: PartCall, error: WeighbridgeError) => void;
};

export class PartCall extends Call {
  readonly #options: PartCallOptions;
  readonly #payloadBytes: number;
  /** What leaves in its place. */
  #over: Uint8Array | undefined;

  constructor(options: PartCallOptions) {
    super(PART_PRIORITY);
    this.#options = options;
    this.#payloadBytes = options.payload.length;
  }

  get isUpdate(): boolean {
    return false;
  }

  get isRead(): boolean {
    return false;
  }

  /** Another incarnation of the receiver is in no operation with us. */
  get isIdempotent(): boolean {
    return false;
  }

  get functionId(): number {
    return collectivePart.id;
  }

  get byteCount(): number {
    return this.#payload.length;
  }

  /** Whether a link may be writing it now, from where it lies. */
  get isReferred(): boolean {
    return this.sendCount > 0 && this.#over === undefined && this.#options.payload.length > INLINE_BYTES_MAX;
  }

  /** From now on it leaves as the body of an OVER. The caller cuts the link that may be writing it. */
  revoke(over: Uint8Array): void {
    this.#over = over;
  }

  encode(header: FrameHeader, batch: FrameBatch): void {
    const { kind, root, generation, sequence, length, index } = this.#options.label;
    const payload = this.#payload;
    header.clearRest();
    header.arg0 = generation;
    header.payloadBytes = payload.length;
    if (this.#over === undefined) {
      header.flags = kind;
      header.command = root;
      header.arg1 = sequence;
      header.arg2 = length;
      header.arg3 = index;
    } else {
      header.flags = CollectiveKind.OVER;
    }
    writeFrame(header, batch, [payload], payload.length);
  }

  get isIntact(): boolean {
    return this.#over !== undefined || this.#options.payload.length === this.#payloadBytes;
  }

  /** The operation cannot be, and nothing after it: as `CollectiveGroup.break` says it. */
  encodeWithdrawn(header: FrameHeader, batch: FrameBatch): void {
    const { code, message } = this.#detached;
    this.revoke(encodeJson({ from: 0, code, message }));
    this.encode(header, batch);
  }

  destination(): undefined {
    return undefined;
  }

  answered(): boolean {
    this.#options.acknowledged(this);
    return true;
  }

  failed(error: WeighbridgeError): void {
    this.#options.failed(this, error.code === "BUFFER_DETACHED" ? this.#detached : error);
  }

  get #detached(): WeighbridgeError {
    return this.#options.detached?.() ?? detachedError(this);
  }

  mustFollow(): boolean {
    return false;
  }

  get #payload(): Uint8Array {
    return this.#over ?? this.#options.payload;
  }
}
