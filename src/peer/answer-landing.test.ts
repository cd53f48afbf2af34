// answer-landing — Goal: an answer is whole and of one time, in the caller's array or one that grows with what comes;
// nonsense is refused.

import assert from "node:assert/strict";
import { test } from "node:test";
import { throwsCode } from "../testing/throws-code.ts";
import { FrameHeader, Kind, setExtent } from "../wire/frame.ts";
import { AnswerLanding } from "./answer-landing.ts";

/** A frame with these bytes of an answer of `total`, as the link reads it: straight to its place if it has one. */
function take(landing: AnswerLanding, bytes: Uint8Array, { total = bytes.length, offset = 0, send = 1 } = {}): Uint8Array | undefined {
  const header = new FrameHeader().reset(Kind.REPLY, 1);
  header.payloadBytes = bytes.length;
  setExtent(header, total, offset);
  const place = bytes.length > 0 ? landing.destination(header) : undefined;
  place?.set(bytes);
  return landing.take(header, place ?? bytes, 0, send);
}

const filled = (length: number, value: number): Uint8Array => new Uint8Array(length).fill(value);

test("answers of one frame land in the caller's array, small and large", () => {
  for (const length of [0, 4, 128, 129, 5000]) {
    const into = new Uint8Array(length);
    assert.equal(take(new AnswerLanding(into, false), filled(length, 7)), into);
    assert.deepEqual(into, filled(length, 7));
    assert.deepEqual(take(new AnswerLanding(undefined, false), filled(length, 7)), filled(length, 7));
  }
});

test("an answer of several frames lands in the caller's array", () => {
  const into = new Uint8Array(400);
  const landing = new AnswerLanding(into, false);
  assert.equal(take(landing, filled(200, 1), { total: 400, offset: 0 }), undefined);
  assert.equal(take(landing, filled(200, 2), { total: 400, offset: 200 }), into);
});

test("an answer of another length than the caller's array is refused, and nothing is written (AnswerLanding.L1)", () => {
  for (const length of [0, 4, 99, 101, 500]) {
    const into = new Uint8Array(100);
    assert.throws(() => take(new AnswerLanding(into, false), filled(length, 7)), throwsCode("VALUE_LENGTH"));
    assert.deepEqual(into, new Uint8Array(100));
  }
});

test("an answer of several frames is whole when all have come, in any order, each once", () => {
  const landing = new AnswerLanding(new Uint8Array(600), false);
  assert.equal(take(landing, filled(200, 3), { total: 600, offset: 400 }), undefined);
  assert.equal(take(landing, filled(200, 1), { total: 600, offset: 0 }), undefined);
  assert.equal(take(landing, filled(200, 1), { total: 600, offset: 0 }), undefined, "one that came twice counts once");
  assert.deepEqual(
    take(landing, filled(200, 2), { total: 600, offset: 200 }),
    Uint8Array.from([1, 2, 3].flatMap((v) => [...filled(200, v)])),
  );
});

test("frames from before the call left again count only if the server keeps its answers (AnswerLanding.L2)", () => {
  for (const isKept of [false, true]) {
    const landing = new AnswerLanding(undefined, isKept);
    take(landing, filled(200, 1), { total: 400, offset: 0, send: 1 });
    const whole = take(landing, filled(200, 2), { total: 400, offset: 200, send: 2 });
    assert.equal(whole !== undefined, isKept);
    if (isKept) continue;
    assert.deepEqual(take(landing, filled(200, 2), { total: 400, offset: 0, send: 2 }), filled(400, 2));
  }
});

test("an answer that has another length the second time begins anew (AnswerLanding.L2)", () => {
  const landing = new AnswerLanding(undefined, false);
  take(landing, filled(200, 1), { total: 600, offset: 0, send: 1 });
  assert.equal(take(landing, filled(200, 2), { total: 400, offset: 0, send: 2 }), undefined);
  assert.deepEqual(take(landing, filled(200, 2), { total: 400, offset: 200, send: 2 }), filled(400, 2));
});

test("what an answer announces costs nothing until it comes; a frame far ahead of the others is refused (AnswerLanding.L3)", () => {
  const landing = new AnswerLanding(undefined, false);
  assert.equal(take(landing, filled(1000, 1), { total: 2 ** 40, offset: 0 }), undefined);
  assert.throws(() => take(landing, filled(1000, 1), { total: 2 ** 40, offset: 2 ** 39 }), throwsCode("BAD_FRAME"));
});

test("frames that reach beyond their answer, or carry nothing of it, are refused", () => {
  const landing = new AnswerLanding(undefined, false);
  assert.throws(() => take(landing, filled(200, 1), { total: 300, offset: 200 }), throwsCode("BAD_FRAME"));
  assert.throws(() => take(landing, new Uint8Array(0), { total: 300, offset: 0 }), throwsCode("BAD_FRAME"));
});
