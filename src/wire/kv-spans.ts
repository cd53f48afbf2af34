// kv-spans — spreads keys with lengths of their own over the frames of a request (spec/protocol.md, K8, K9): grouped up
// to a block; a long value goes alone, in pieces.

import { KEY_BYTES } from "../kernel/elements.ts";
import { BLOCK_BYTES } from "./frame.ts";
import { LARGE_VALUE_BYTES, LEN_BYTES } from "./kv-message.ts";

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

/**
 * The frames of this part, in order; `lens` holds the length of every key of the request. No frame is marked as the
 * last.
 */
export function variableSpans(lens: Int32Array, elementBytes: number, part: Omit<KvPart, "valueTo">): KvSpan[] {
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
      addPieces(spans, { key, valueFrom: value, width: length, elementBytes });
      keyFrom = key + 1;
      valueFrom = value + length;
    }
    value += length;
  }
  close(part.keyTo);
  return spans;
}

/** The pieces of one long value, a block each. */
export function addPieces(
  spans: KvSpan[],
  { key, valueFrom, width, elementBytes }: { key: number; valueFrom: number; width: number; elementBytes: number },
): void {
  const blockValues = BLOCK_BYTES / elementBytes;
  for (let offset = 0; offset < width; offset += blockValues) {
    const valueTo = valueFrom + Math.min(width, offset + blockValues);
    spans.push({ keyFrom: key, keyTo: key + 1, valueFrom: valueFrom + offset, valueTo, width, pieceOffset: offset, isLast: false });
  }
}
