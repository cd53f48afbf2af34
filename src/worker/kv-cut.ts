// kv-cut — cuts what a kv request asks of one server into calls of about a block each (spec/protocol.md, the kv functions).

import { BLOCK_BYTES } from "../wire/frame.ts";
import { KEY_BYTES, keysPerFrame, LARGE_VALUE_BYTES, LEN_BYTES } from "../wire/kv-message.ts";
import { KvCall, type KvPart, type KvSpan } from "./kv-call.ts";
import type { KvRequest } from "./kv-request.ts";

/** The one call of a request that is small and goes to one server; undefined when it takes more than one. Most requests are such. */
export function wholeCall(request: KvRequest): KvCall | undefined {
  const { keys, lens, width, elementBytes } = request;
  const keyCount = keys.length;
  const byteCount = keyCount * (KEY_BYTES + LEN_BYTES + width * elementBytes);
  if (lens !== undefined || byteCount > BLOCK_BYTES || width * elementBytes >= LARGE_VALUE_BYTES) return undefined;
  const span: KvSpan = { keyFrom: 0, keyTo: keyCount, valueFrom: 0, valueTo: keyCount * width, width, pieceOffset: -1, isLast: true };
  return new KvCall(request, span);
}

/** The calls of this part, in order; the last one is marked. */
export function cutPart(request: KvRequest, part: KvPart): KvCall[] {
  const { lens } = request;
  const spans = lens === undefined ? cutUniform(request, part) : cutVariable(request, part, lens);
  return spans.map((span, i) => new KvCall(request, i === spans.length - 1 ? { ...span, isLast: true } : span, part));
}

function cutUniform(request: KvRequest, { keyFrom, keyTo, valueFrom }: KvPart): KvSpan[] {
  const { width, elementBytes } = request;
  const spans: KvSpan[] = [];
  if (width * elementBytes >= LARGE_VALUE_BYTES) {
    for (let key = keyFrom; key < keyTo; key++)
      cutLong(spans, { key, valueFrom: valueFrom + (key - keyFrom) * width, width, elementBytes });
    return spans;
  }
  const frameKeys = keysPerFrame(width * elementBytes);
  for (let from = keyFrom; from < keyTo; from += frameKeys) {
    const to = Math.min(keyTo, from + frameKeys);
    const first = valueFrom + (from - keyFrom) * width;
    spans.push({ keyFrom: from, keyTo: to, valueFrom: first, valueTo: first + (to - from) * width, width, pieceOffset: -1, isLast: false });
  }
  return spans;
}

/** Keys with lengths of their own: grouped up to a block; a long value goes alone, in pieces. */
function cutVariable(request: KvRequest, part: KvPart, lens: Int32Array): KvSpan[] {
  const { elementBytes } = request;
  const spans: KvSpan[] = [];
  let keyFrom = part.keyFrom;
  let valueFrom = part.valueFrom;
  let value = part.valueFrom;
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
      cutLong(spans, { key, valueFrom: value, width: length, elementBytes });
      keyFrom = key + 1;
      valueFrom = value + length;
    }
    value += length;
  }
  close(part.keyTo);
  return spans;
}

function cutLong(
  spans: KvSpan[],
  { key, valueFrom, width, elementBytes }: { key: number; valueFrom: number; width: number; elementBytes: number },
): void {
  const blockValues = BLOCK_BYTES / elementBytes;
  for (let offset = 0; offset < width; offset += blockValues) {
    const valueTo = valueFrom + Math.min(width, offset + blockValues);
    spans.push({ keyFrom: key, keyTo: key + 1, valueFrom: valueFrom + offset, valueTo, width, pieceOffset: offset, isLast: false });
  }
}
