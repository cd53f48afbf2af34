// Goal: a cache that does not fit the arena takes nothing of it, wherever the room ends.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { Arena } from "../../kernel/arena.ts";
import { resolveOptimizer } from "../../store/updaters/optimizer-spec.ts";
import { RowPlanner } from "../router/row-plan.ts";
import { CacheState } from "./cache-state.ts";

const OPTIONS = { rows: 100, width: 4, policy: "lru", optimizer: resolveOptimizer({ type: "adam" }) } as const;

const ARENA_BYTES = 1 << 18;

/** Takes memory until so many bytes are in use, or no more can be. */
function fill(arena: Arena, usedBytesMax: number): void {
  for (let byteCount = 1 << 16; byteCount >= 64; byteCount >>>= 1) {
    while (arena.usedBytes + byteCount <= usedBytesMax && arena.tryAllocate(byteCount) !== 0);
  }
}

/** Whether a cache fits an arena of which so many bytes are in use. Opened or not, nothing is left of it. */
function opens(usedBytes: number): boolean {
  const arena = new Arena({ shared: false, bytesMax: ARENA_BYTES });
  const planner = RowPlanner.among(arena, [0], 1);
  fill(arena, usedBytes);
  const { usedBytes: before } = arena;
  let isOpened = true;
  try {
    new CacheState(planner, OPTIONS).close();
  } catch (thrown) {
    assert.ok(isWeighbridgeError(thrown, "ARENA_FULL"));
    isOpened = false;
  }
  assert.equal(arena.usedBytes, before, `with ${usedBytes} bytes in use (CacheState.C1)`);
  return isOpened;
}

test("wherever the room ends, what was opened of a cache that does not fit is given back", () => {
  const full = new Arena({ shared: false, bytesMax: ARENA_BYTES });
  fill(full, ARENA_BYTES);
  let usedBytes = full.usedBytes;
  assert.equal(opens(usedBytes), false);
  while (!opens(usedBytes)) usedBytes -= 64;
  assert.ok(full.usedBytes - usedBytes > OPTIONS.rows * OPTIONS.width * 4);
});
