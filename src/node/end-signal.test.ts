// end-signal.test — Goal: a program that listens for a signal itself decides for itself, and a node that is closed
// listens no more. Real signals are test/e2e/signals.test.ts's.

import assert from "node:assert/strict";
import { test } from "node:test";
import { onEndSignal } from "./end-signal.ts";
import { ECHO_MS } from "./signal-echo.ts";

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

test("Ctrl-C stops a server that keeps its state in a directory as SIGTERM does, once: the second one ends it, and not the same one passed on; without a directory both do", async () => {
  const before = process.listenerCount("SIGINT");
  const stopPlain = onEndSignal(async () => false);
  assert.equal(process.listenerCount("SIGINT"), before, "the system ends a server that keeps nothing");
  stopPlain();
  for (const kept of [{ checkpointDir: "there" }, { durable: "there" }]) {
    let leaves = 0;
    let nowMs = 0;
    const killed: (string | number)[] = [];
    const end = (signal: NodeJS.Signals): void => void killed.push(signal);
    const stop = onEndSignal(async () => await new Promise<never>(() => leaves++), kept, { end, nowMs: () => nowMs });
    process.emit("SIGINT", "SIGINT");
    nowMs = ECHO_MS - 1;
    process.emit("SIGINT", "SIGINT");
    assert.deepEqual([leaves, killed], [1, []]);
    nowMs = ECHO_MS;
    process.emit("SIGINT", "SIGINT");
    assert.deepEqual([leaves, killed], [1, ["SIGINT"]]);
    stop();
    assert.equal(process.listenerCount("SIGINT"), before);
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
