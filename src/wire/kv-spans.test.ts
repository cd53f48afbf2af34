// Goal: the frames of a request carry every key and value once, in order, each at most a block, and long values alone.

import assert from "node:assert/strict";
import { test } from "node:test";
import { BLOCK_BYTES } from "./frame.ts";
import { keysPerFrame, LARGE_VALUE_BYTES } from "./kv-message.ts";
import { type KvSpan, UniformCut, uniformSpans, variableSpans } from "./kv-spans.ts";

const RUN = { keyFrom: 3, valueFrom: 7 };

function checkCover(spans: readonly KvSpan[], { keyTo, width }: { readonly keyTo: number; readonly width: number }): void {
  let [key, value] = [RUN.keyFrom, RUN.valueFrom];
  for (const { keyFrom, keyTo: end, valueFrom, valueTo, pieceOffset } of spans) {
    assert.deepEqual([keyFrom, valueFrom], [key, value]);
    if (pieceOffset >= 0) {
      assert.deepEqual([end, pieceOffset], [key + 1, (value - RUN.valueFrom) % width]);
      if (pieceOffset + valueTo - valueFrom === width) key++;
    } else {
      assert.equal(valueTo - valueFrom, (end - keyFrom) * width);
      key = end;
    }
    value = valueTo;
  }
  assert.deepEqual([key, value], [keyTo, RUN.valueFrom + (keyTo - RUN.keyFrom) * width]);
}

test("keys with equally many values are cut alike, whether their lengths are known one by one or not", () => {
  for (const elementBytes of [1, 4, 8]) {
    const longWidth = LARGE_VALUE_BYTES / elementBytes;
    for (const width of [1, 5, longWidth - 1, longWidth, BLOCK_BYTES / elementBytes, BLOCK_BYTES / elementBytes + 1, 3 * longWidth + 1]) {
      const frameKeys = keysPerFrame(width * elementBytes);
      for (const keyCount of [1, 2, frameKeys, frameKeys + 1, 2 * frameKeys + 1].filter((count) => count * width < 2 ** 23)) {
        const run = { ...RUN, keyTo: RUN.keyFrom + keyCount };
        const spans = uniformSpans(width, elementBytes, run);
        checkCover(spans, { keyTo: run.keyTo, width });
        const lens = new Int32Array(run.keyTo).fill(width);
        const variable = variableSpans(lens, elementBytes, run).map((span) => (span.pieceOffset < 0 ? { ...span, width } : span));
        assert.deepEqual(variable, spans, `${keyCount} keys of ${width} values of ${elementBytes} bytes`);
      }
    }
  }
});

test("a cut of more than ever comes has its count and any of its frames at once", () => {
  const cut = new UniformCut(2 ** 40, 4, { keyFrom: 0, keyTo: 2, valueFrom: 0 });
  assert.equal(cut.frameCount, 2 ** 24);
  const { keyFrom, valueTo, pieceOffset } = cut.span(2 ** 24 - 1);
  assert.deepEqual([keyFrom, valueTo, pieceOffset], [1, 2 ** 41, 2 ** 40 - 2 ** 17]);
});
