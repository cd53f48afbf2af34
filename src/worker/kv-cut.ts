// kv-cut — cuts what a kv request asks of one server into calls of about a block each (spec/protocol.md, the kv functions).

import { BLOCK_BYTES } from "../wire/frame.ts";
import { KEY_BYTES, keysPerFrame, LARGE_VALUE_BYTES, LEN_BYTES } from "../wire/kv-message.ts";
import { addPieces, type KvPart, type KvSpan, variableSpans } from "../wire/kv-spans.ts";
import { KvCall } from "./kv-call.ts";
import type { KvRequest } from "./kv-request.ts";

/** The one call of a request that is small and goes to one server; undefined when it takes more than one. Most requests are such. */
export function wholeCall(request: KvRequest, epoch: number): KvCall | undefined {
  const { keys, lens, width, elementBytes } = request;
  const keyCount = keys.length;
  const byteCount = keyCount * (KEY_BYTES + LEN_BYTES + width * elementBytes);
  if (lens !== undefined || byteCount > BLOCK_BYTES || width * elementBytes >= LARGE_VALUE_BYTES) return undefined;
  const span: KvSpan = { keyFrom: 0, keyTo: keyCount, valueFrom: 0, valueTo: keyCount * width, width, pieceOffset: -1, isLast: true };
  return new KvCall(request, span, epoch);
}

/** The calls of this part, in order; the last one is marked. */
export function cutPart(request: KvRequest, part: KvPart, epoch: number): KvCall[] {
  const { lens } = request;
  const spans = lens === undefined ? cutUniform(request, part) : variableSpans(lens, request.elementBytes, part);
  const last = spans.at(-1);
  if (last !== undefined) last.isLast = true;
  return spans.map((span) => new KvCall(request, span, epoch, part));
}

function cutUniform(request: KvRequest, { keyFrom, keyTo, valueFrom }: KvPart): KvSpan[] {
  const { width, elementBytes } = request;
  const spans: KvSpan[] = [];
  if (width * elementBytes >= LARGE_VALUE_BYTES) {
    for (let key = keyFrom; key < keyTo; key++)
      addPieces(spans, { key, valueFrom: valueFrom + (key - keyFrom) * width, width, elementBytes });
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
