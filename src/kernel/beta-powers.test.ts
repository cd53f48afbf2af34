// Goal: the table gives powers for every u32 exponent.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Arena } from "./arena.ts";
import { BETA_POWERS_BYTES, readBetaPowers, writeBetaPowers } from "./beta-powers.ts";

test("powers of every size of exponent are right to 1 in 10^9", () => {
  const arena = new Arena({ bytesMax: 2 ** 18 });
  const address = arena.allocate(BETA_POWERS_BYTES);
  writeBetaPowers(arena, address, 0.9, 0.9999999);
  for (const exponent of [0, 1, 2, 100, 255, 256, 257, 1000, 65_535, 65_536, 2 ** 24 - 1, 2 ** 24, 2 ** 31, 2 ** 32 - 1]) {
    const [first, second] = readBetaPowers(arena, address, exponent);
    for (const [found, expected] of [
      [first, 0.9 ** exponent],
      [second, 0.9999999 ** exponent],
    ] as const) {
      assert.ok(Math.abs(found - expected) <= 1e-9 * Math.max(expected, 1e-20), `${exponent}: ${found} is not ${expected}`);
    }
  }
});
