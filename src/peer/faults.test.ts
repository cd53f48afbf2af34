// Goal: frames are lost, doubled and held back as often as asked for, the same ones for the same seed, and none is held
// for ever.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SimClock } from "../testing/sim-clock.ts";
import { Faults } from "./faults.ts";

const NONE = { dropPercent: 0, duplicatePercent: 0, reorderPercent: 0, delayMs: 10, seed: 1 };

/** Sends `count` frames through, and returns what came out, in order. */
async function passed(options: Partial<typeof NONE>, count: number, salt = 0) {
  const clock = new SimClock();
  let dropped = 0;
  const faults = new Faults({ ...NONE, ...options }, clock, salt, () => dropped++);
  const seen: number[] = [];
  for (let i = 0; i < count; i++) faults.pass({ emit: () => seen.push(i), discard: () => {}, isRepeatable: true });
  const early = seen.length;
  await clock.run();
  return { seen, early, dropped };
}

test("without faults every frame passes at once, in order", async () => {
  const { seen, early } = await passed({}, 100);
  assert.deepEqual(
    seen,
    Array.from({ length: 100 }, (_, i) => i),
  );
  assert.equal(early, 100);
});

test("loses about as many as asked for, and counts them", async () => {
  const { seen, dropped } = await passed({ dropPercent: 10 }, 10_000);
  assert.equal(seen.length, 10_000 - dropped);
  assert.ok(dropped > 850 && dropped < 1150, `${dropped}`);
});

test("doubles about as many as asked for", async () => {
  const { seen } = await passed({ duplicatePercent: 25 }, 10_000);
  assert.ok(seen.length > 12_200 && seen.length < 12_800, `${seen.length}`);
});

test("frames held back pass behind the next one, or after the delay when no other comes", async () => {
  const { seen } = await passed({ reorderPercent: 30 }, 1000);
  assert.deepEqual(
    [...seen].sort((a, b) => a - b),
    Array.from({ length: 1000 }, (_, i) => i),
  );
  assert.ok(seen.some((frame, i) => i > 0 && frame < (seen[i - 1] as number)));
  const alone = await passed({ reorderPercent: 100 }, 1);
  assert.deepEqual([alone.early, alone.seen], [0, [0]]);
});

test("the seed and the channel decide which ones", async () => {
  const options = { dropPercent: 20, duplicatePercent: 20, reorderPercent: 20 };
  assert.deepEqual(await passed(options, 500), await passed(options, 500));
  assert.notDeepEqual((await passed(options, 500)).seen, (await passed({ ...options, seed: 2 }, 500)).seen);
  assert.notDeepEqual((await passed(options, 500)).seen, (await passed(options, 500, 1)).seen);
});

test("what was held is gone with the link", async () => {
  const clock = new SimClock();
  const faults = new Faults({ ...NONE, reorderPercent: 100 }, clock, 0);
  let emitted = 0;
  let discarded = 0;
  faults.pass({ emit: () => emitted++, discard: () => discarded++, isRepeatable: true });
  faults.reset();
  await clock.run();
  assert.deepEqual({ emitted, discarded }, { emitted: 0, discarded: 1 });
});

test("a frame that lets go of its memory when it is written is never repeated", async () => {
  const clock = new SimClock();
  const faults = new Faults({ ...NONE, duplicatePercent: 100 }, clock, 0);
  const emitted: string[] = [];
  faults.pass({ emit: () => emitted.push("once"), discard: () => {}, isRepeatable: false });
  faults.pass({ emit: () => emitted.push("twice"), discard: () => {}, isRepeatable: true });
  await clock.run();
  assert.deepEqual(emitted, ["once", "twice", "twice"]);
});
