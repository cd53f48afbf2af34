// kv-part — what one kv request asks of one server: a run of keys with their values, cut into calls of about a block each.

import { WeighbridgeError } from "../base/errors.ts";
import { BLOCK_BYTES } from "../wire/frame.ts";
import { KEY_BYTES, LARGE_VALUE_BYTES, LEN_BYTES, type Values } from "../wire/kv-message.ts";
import { nameOf } from "../wire/node-id.ts";
import { KvCall, type KvSpan } from "./kv-call.ts";
import type { KvRequest } from "./kv-request.ts";

/** A variable-length answer, as it landed: values, then lens. */
export type Landing = { readonly keyFrom: number; readonly keyTo: number; readonly bytes: Uint8Array };

export class KvPart {
  readonly request: KvRequest;
  readonly node: number;
  readonly keyFrom: number;
  readonly keyTo: number;
  /** Of the request's values, in values. */
  readonly valueFrom: number;
  readonly valueTo: number;

  constructor(request: KvRequest, node: number, range: { keyFrom: number; keyTo: number; valueFrom: number; valueTo: number }) {
    this.request = request;
    this.node = node;
    this.keyFrom = range.keyFrom;
    this.keyTo = range.keyTo;
    this.valueFrom = range.valueFrom;
    this.valueTo = range.valueTo;
  }

  get app(): number {
    return this.request.app;
  }

  get customer(): number {
    return this.request.customer;
  }

  get command(): number {
    return this.request.command;
  }

  get priority(): number {
    return this.request.priority;
  }

  get functionId(): number {
    return this.request.functionId;
  }

  get timestamp(): number {
    return this.request.timestamp;
  }

  get keys(): BigUint64Array {
    return this.request.keys;
  }

  get sent(): Values | undefined {
    return this.request.sent;
  }

  get received(): Values | undefined {
    return this.request.received;
  }

  /** Values per key as the caller sends them. */
  get lens(): Int32Array | undefined {
    return this.request.lens;
  }

  get wantsLens(): boolean {
    return this.request.wantsLens;
  }

  get dtype(): number {
    return this.request.dtype;
  }

  /** The calls of this part, in order; each carries about a block. */
  cut(): KvCall[] {
    const spans = this.request.lens === undefined ? this.#cutUniform() : this.#cutVariable(this.request.lens);
    return spans.map((span, i) => new KvCall(this, i === spans.length - 1 ? { ...span, isLast: true } : span));
  }

  frameDone(): void {
    this.request.frameDone();
  }

  frameFailed(error: WeighbridgeError): void {
    this.request.frameFailed(error);
  }

  landed(bytes: Uint8Array, span: KvSpan, whole: boolean): void {
    const { keyFrom, keyTo } = whole ? this : span;
    this.request.landings.push({ keyFrom, keyTo, bytes });
  }

  floatsOver(bytes: Uint8Array): Float32Array {
    return this.request.floatsOver(bytes);
  }

  lengthError(total: number, expected: number): WeighbridgeError {
    return new WeighbridgeError(
      "VALUE_LENGTH",
      `${nameOf(this.node)} answered with ${total} bytes of values for ${this.keyTo - this.keyFrom} keys; ${expected} were expected`,
    );
  }

  #cutUniform(): KvSpan[] {
    const { keyFrom, keyTo, valueFrom } = this;
    const { width, elementBytes } = this.request.shape;
    if (width * elementBytes >= LARGE_VALUE_BYTES) {
      const spans: KvSpan[] = [];
      for (let key = keyFrom; key < keyTo; key++) this.#cutLong(spans, key, valueFrom + (key - keyFrom) * width, width);
      return spans;
    }
    const keysPerFrame = Math.max(1, Math.floor(BLOCK_BYTES / (KEY_BYTES + LEN_BYTES + width * elementBytes)));
    const spans: KvSpan[] = [];
    for (let from = keyFrom; from < keyTo; from += keysPerFrame) {
      const to = Math.min(keyTo, from + keysPerFrame);
      const first = valueFrom + (from - keyFrom) * width;
      spans.push({
        keyFrom: from,
        keyTo: to,
        valueFrom: first,
        valueTo: first + (to - from) * width,
        width,
        pieceOffset: -1,
        isLast: false,
      });
    }
    return spans;
  }

  /** Keys with lengths of their own: grouped up to a block; a long value goes alone, in pieces. */
  #cutVariable(lens: Int32Array): KvSpan[] {
    const { elementBytes } = this.request.shape;
    const spans: KvSpan[] = [];
    let keyFrom = this.keyFrom;
    let valueFrom = this.valueFrom;
    let value = this.valueFrom;
    const close = (keyTo: number): void => {
      if (keyTo > keyFrom) spans.push({ keyFrom, keyTo, valueFrom, valueTo: value, width: 0, pieceOffset: -1, isLast: false });
    };
    for (let key = this.keyFrom; key < this.keyTo; key++) {
      const length = lens[key] as number;
      const isLong = length * elementBytes >= LARGE_VALUE_BYTES;
      const groupBytes = (key - keyFrom) * (KEY_BYTES + LEN_BYTES) + (value - valueFrom + length) * elementBytes;
      if (isLong || groupBytes > BLOCK_BYTES) {
        close(key);
        keyFrom = key;
        valueFrom = value;
      }
      if (isLong) {
        this.#cutLong(spans, key, value, length);
        keyFrom = key + 1;
        valueFrom = value + length;
      }
      value += length;
    }
    close(this.keyTo);
    return spans;
  }

  #cutLong(spans: KvSpan[], key: number, valueFrom: number, width: number): void {
    const blockValues = BLOCK_BYTES / this.request.shape.elementBytes;
    for (let offset = 0; offset < width; offset += blockValues) {
      const valueTo = valueFrom + Math.min(width, offset + blockValues);
      spans.push({ keyFrom: key, keyTo: key + 1, valueFrom: valueFrom + offset, valueTo, width, pieceOffset: offset, isLast: false });
    }
  }
}
