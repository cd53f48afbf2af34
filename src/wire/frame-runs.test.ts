// Goal: two frames share a header exactly when a reader can make the second one's header out of the first one's.

import assert from "node:assert/strict";
import { test } from "node:test";
import { continuesRun, FrameHeader, Kind, stepRun } from "./frame.ts";

function headerOf(fields: Partial<FrameHeader>): FrameHeader {
  return Object.assign(new FrameHeader(), fields);
}

const PUSH = {
  functionId: 32,
  flags: 132,
  payloadBytes: 12,
  priority: -1,
  request: 7,
  stamp: 4,
  settled: 5,
  app: 1,
  customer: 2,
  command: 3,
};
const ARGS = { arg0: 1, arg1: 1, arg2: 0, arg3: 0xffffffff };

test("the next request of a run has the next number, stamp and timestamp", () => {
  const last = headerOf({ ...PUSH, ...ARGS });
  const next = headerOf({ ...PUSH, ...ARGS, request: 8, stamp: 5, arg3: 0 });
  assert.equal(continuesRun(last, next), true);
  stepRun(last);
  assert.deepEqual(last, next);
});

test("what has no stamp stays without, and a reply keeps its args", () => {
  const last = headerOf({ ...PUSH, ...ARGS, kind: Kind.REPLY, stamp: 0 });
  const next = headerOf({ ...PUSH, ...ARGS, kind: Kind.REPLY, stamp: 0, request: 8 });
  assert.equal(continuesRun(last, next), true);
  stepRun(last);
  assert.deepEqual(last, next);
});

test("a frame that differs in anything else opens a run of its own; only what is settled may differ", () => {
  for (const kind of [Kind.REQUEST, Kind.REPLY]) {
    const last = headerOf({ ...PUSH, ...ARGS, kind });
    const next = headerOf({});
    next.copyFrom(last);
    stepRun(next);
    next.settled = 6;
    assert.equal(continuesRun(last, next), true);
    for (const name of Object.keys(next) as (keyof typeof PUSH)[]) {
      if ((name as string) === "more" || name === "settled") continue;
      const other = headerOf({});
      other.copyFrom(next);
      other[name]++;
      assert.equal(continuesRun(last, other), false, name);
    }
  }
});

test("a header that was copied is the same in every field", () => {
  const copy = new FrameHeader();
  const header = headerOf({ ...PUSH, ...ARGS, kind: Kind.REPLY, more: 9 });
  copy.copyFrom(header);
  assert.deepEqual(copy, header);
});
