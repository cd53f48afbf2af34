// kv-spans — spreads keys and their values over the frames of a request (spec/protocol.md, K8, K9): grouped up to a
// block; a long value goes alone, in pieces.

import { KEY_BYTES } from "../kernel/elements.ts";
import { BLOCK_BYTES } from "./frame.ts";
import { keysPerFrame, LARGE_VALUE_BYTES, LEN_BYTES } from "./kv-message.ts";

/** A run of a request's keys and their values, for one server. */
export type KvPart = {
  readonly keyFrom: number;
  readonly keyTo: number;
  /** Of the values sent and received, in values. */
  readonly valueFrom: number;
  readonly valueTo: number;
  /** The server has some of its frames, and does nothing with them before the last one (spec/protocol.md, K11). */
  isGathered?: boolean;
};

/** What one frame carries of a part. */
export type KvSpan = KvPart & {
  /** Values per key; 0 when lens say. */
  readonly width: number;
  /** For a piece of one long value: its first value in the whole; -1 otherwise. */
  readonly pieceOffset: number;
  /** Set by the code that cut the whole part. */
  isLast: boolean;
};

/** A run of keys and where its values begin. */
type KvRun = Omit<KvPart, "valueTo">;

/** How keys with equally many values are cut. Spans are made one by one: a peer may announce more than ever comes. */
export class UniformCut {
  readonly frameCount: number;
  readonly #run: KvRun;
  readonly #width: number;
  /** Of a long value, which goes alone: the values of a piece, and its pieces; 0 otherwise. */
  readonly #pieceValues: number;
  readonly #pieceCount: number;
  readonly #frameKeys: number;

  /** `width`: values per key. */
  constructor(width: number, elementBytes: number, run: KvRun) {
    const keyCount = run.keyTo - run.keyFrom;
    const valueBytes = width * elementBytes;
    const isLong = valueBytes >= LARGE_VALUE_BYTES;
    this.#run = run;
    this.#width = width;
    this.#pieceValues = isLong ? BLOCK_BYTES / elementBytes : 0;
    this.#pieceCount = isLong ? Math.ceil(width / this.#pieceValues) : 0;
    this.#frameKeys = keysPerFrame(valueBytes);
    this.frameCount = isLong ? keyCount * this.#pieceCount : Math.ceil(keyCount / this.#frameKeys);
  }

  /** What frame `index` carries, not marked as the last. */
  span(index: number): KvSpan {
    return this.#pieceCount > 0 ? this.#piece(index) : this.#group(index);
  }

  #group(index: number): KvSpan {
    const { keyFrom: first, keyTo: end, valueFrom: firstValue } = this.#run;
    const width = this.#width;
    const keyFrom = first + index * this.#frameKeys;
    const keyTo = Math.min(end, keyFrom + this.#frameKeys);
    const valueFrom = firstValue + (keyFrom - first) * width;
    return { keyFrom, keyTo, valueFrom, valueTo: valueFrom + (keyTo - keyFrom) * width, width, pieceOffset: -1, isLast: false };
  }

  #piece(index: number): KvSpan {
    const width = this.#width;
    const keyIndex = Math.floor(index / this.#pieceCount);
    const pieceOffset = (index - keyIndex * this.#pieceCount) * this.#pieceValues;
    const keyFrom = this.#run.keyFrom + keyIndex;
    const value = this.#run.valueFrom + keyIndex * width;
    const valueTo = value + Math.min(width, pieceOffset + this.#pieceValues);
    return { keyFrom, keyTo: keyFrom + 1, valueFrom: value + pieceOffset, valueTo, width, pieceOffset, isLast: false };
  }
}

/** The frames of this run, in order, of keys with `width` values each. No frame is marked as the last. */
export function uniformSpans(width: number, elementBytes: number, run: KvRun): KvSpan[] {
  const cut = new UniformCut(width, elementBytes, run);
  return Array.from({ length: cut.frameCount }, (_, i) => cut.span(i));
}

/**
 * The frames of this part, in order; `lens` holds the length of every key of the request. No frame is marked as the
 * last.
 */
export function variableSpans(lens: Int32Array, elementBytes: number, part: KvRun): KvSpan[] {
  const spans: KvSpan[] = [];
  let { keyFrom, valueFrom } = part;
  let value = valueFrom;
  const close = (keyTo: number): void => {
    if (keyTo > keyFrom) spans.push({ keyFrom, keyTo, valueFrom, valueTo: value, width: 0, pieceOffset: -1, isLast: false });
  };
  for (let key = part.keyFrom; key < part.keyTo; key++) {
    const length = lens[key] as number;
    const isLong = length * elementBytes >= LARGE_VALUE_BYTES;
    const groupBytes = (key + 1 - keyFrom) * (KEY_BYTES + LEN_BYTES) + (value - valueFrom + length) * elementBytes;
    if (isLong || groupBytes > BLOCK_BYTES) {
      close(key);
      keyFrom = key;
      valueFrom = value;
    }
    if (isLong) {
      spans.push(...uniformSpans(length, elementBytes, { keyFrom: key, keyTo: key + 1, valueFrom: value }));
      keyFrom = key + 1;
      valueFrom = value + length;
    }
    value += length;
  }
  close(part.keyTo);
  return spans;
}
