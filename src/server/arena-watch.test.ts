// Goal: people hear of it in time that a server's memory fills up, and not again and again.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SILENT_LOG } from "../base/log.ts";
import { Arena } from "../kernel/arena.ts";
import { ArenaWatch } from "./arena-watch.ts";

const MIB = 2 ** 20;

test("warns at 80 and at 95 percent, once each, and again only after the use fell well below (ArenaWatch.W1)", () => {
  const arena = new Arena({ bytesMax: 128 * MIB, reserve: true });
  const told: number[] = [];
  const log = { ...SILENT_LOG, warn: (message: string) => told.push(Number(/is (\d+) % full/.exec(message)?.[1])) };
  const watch = new ArenaWatch(arena, log);
  const spans: number[] = [];
  const bringTo = (share: number): void => {
    const wanted = share * arena.stateBytesMax;
    while (arena.stateUsedBytes < wanted) spans.push(arena.allocateState(MIB / 4));
    while (arena.stateUsedBytes > wanted) arena.release(spans.pop() as number, MIB / 4);
    const used = arena.stateUsedBytes;
    if (used >= watch.high || used < watch.low) watch.passed(used);
  };
  for (const share of [0.5, 0.79, 0.815, 0.85, 0.78, 0.82]) bringTo(share);
  assert.deepEqual(told, [81]);
  for (const share of [0.94, 0.965, 0.92, 0.97, 0.99]) bringTo(share);
  assert.deepEqual(told, [81, 96]);
  for (const share of [0.7, 0.815]) bringTo(share);
  assert.deepEqual(told, [81, 96, 81]);
  bringTo(0.1);
  bringTo(0.99); // past both at once: one line
  assert.deepEqual(told, [81, 96, 81, 98]);
});
