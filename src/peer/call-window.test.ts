// call-window — Goal: what is open with a node that does not answer is bounded, and whoever waits for room is told.

import assert from "node:assert/strict";
import { test } from "node:test";
import { CallWindow } from "./call-window.ts";

test("calls are admitted up to a number and a sum of bytes, and a large one when it is alone (CallWindow.W1)", () => {
  const window = new CallWindow({ callsMax: 3, bytesMax: 100 });
  assert.ok(window.admits(1000), "alone");
  window.open(60);
  assert.ok(window.admits(40));
  assert.ok(!window.admits(41));
  window.open(10);
  window.open(10);
  assert.ok(!window.admits(1), "three are open");
  assert.equal(window.describe(), "3 calls of 80 bytes");
  window.close(60);
  assert.ok(window.admits(80));
});

test("whoever waits is told once half of the window is free, all of them together (CallWindow.W3)", async () => {
  const window = new CallWindow({ callsMax: 4, bytesMax: 100 });
  await window.whenRoom();
  for (let i = 0; i < 4; i++) window.open(25);
  const told: number[] = [];
  const waits = [1, 2].map((n) => window.whenRoom().then(() => told.push(n)));
  window.close(25);
  await Promise.resolve();
  assert.deepEqual(told, []);
  window.close(25);
  await Promise.all(waits);
  assert.deepEqual(told, [1, 2]);
  await window.whenRoom();
});

test("one call that is larger than the window leaves room once it has ended", async () => {
  const window = new CallWindow({ callsMax: 4, bytesMax: 100 });
  window.open(1000);
  const room = window.whenRoom();
  window.close(1000);
  await room;
});
