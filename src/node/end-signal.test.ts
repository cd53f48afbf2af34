// end-signal.test — Goal: a program that listens for a signal itself decides for itself, and a node that is closed
// listens no more. Real signals are test/e2e/signals.test.ts's.

import assert from "node:assert/strict";
import { test } from "node:test";
import { onEndSignal } from "./end-signal.ts";

test("nothing is done about a signal that the program listens for itself", () => {
  let leaves = 0;
  const stop = onEndSignal(async () => ++leaves < 0);
  const heard: string[] = [];
  const own = (signal: string): void => void heard.push(signal);
  process.on("SIGTERM", own);
  try {
    process.emit("SIGTERM", "SIGTERM");
    assert.deepEqual([heard, leaves], [["SIGTERM"], 0]);
  } finally {
    process.off("SIGTERM", own);
    stop();
  }
});

test("a node without anything to say before its end leaves signals to the system, and one that has ended does again", () => {
  const before = process.listenerCount("SIGTERM");
  const stopQuiet = onEndSignal(undefined);
  assert.equal(process.listenerCount("SIGTERM"), before);
  const stop = onEndSignal(async () => false);
  assert.equal(process.listenerCount("SIGTERM"), before + 1);
  stop();
  stopQuiet();
  assert.equal(process.listenerCount("SIGTERM"), before);
});
