// Goal: rates count every request between two timed completions, and no other.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Meter } from "./meter.ts";

test("requests that are not timed count for the rate from the first timed completion to the last", () => {
  const meter = new Meter();
  // Whole milliseconds, whose differences are exact: of two readings of a real clock, begin + 10 - begin may be less
  // than 10.
  const begin = 1000;
  meter.start({ warmupMs: 1, measureMs: 10 }, begin - 1);
  assert.equal(meter.completeUntimed(), true, "before the span");
  assert.equal(meter.complete(begin - 2, begin - 0.5), true, "still warming up");
  assert.equal(meter.complete(begin - 1, begin), true);
  for (let i = 0; i < 7; i++) assert.equal(meter.completeUntimed(), true);
  assert.equal(meter.complete(begin, begin + 5), true);
  for (let i = 0; i < 7; i++) assert.equal(meter.completeUntimed(), true);
  assert.equal(meter.complete(begin + 5, begin + 10), false);
  assert.equal(meter.completeUntimed(), false, "after the span none is wanted (Meter.M2)");
  const { reqPerSec, p50Us } = meter.figure();
  assert.equal(Math.round(reqPerSec), 1600);
  assert.equal(Math.round(p50Us), 5000);
});
