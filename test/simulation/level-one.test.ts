// level-one — Goal: whatever the order in which the threads of a shared model run, every device gets the same bits of a
// round, the sum of what was pushed in it; a device that dies is named; and nobody sleeps while there is something for
// it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../src/base/random.ts";
import { type Drawn, LevelOneThreads } from "./level-one-threads.ts";
import { forSeeds } from "./seeds.ts";

function drawnOf(seed: number, dies: boolean): Drawn {
  const random = new Random(seed * 7919);
  return {
    ...{ seed, deviceCount: 2 + random.below(3), keyCount: 1 + random.below(4), roundCount: 2 + random.below(4) },
    ...{ shareCount: 1 + random.below(3), threadsMax: 1 + random.below(4), goesOn: random.chance(0.5) },
    diesAfter: dies ? 1 + random.below(60) : undefined,
  };
}

/** Returns how many pulls ended well, and how many failed. */
function check({ drawn, outcomes, rounds, dead }: LevelOneThreads): { readonly ended: number; readonly failed: number } {
  let [ended, failed] = [0, 0];
  for (const [{ device, key, round }, outcome] of outcomes) {
    const what = `device ${device}, key ${key}, round ${round}`;
    if ("code" in outcome) {
      assert.deepEqual([outcome.code, outcome.message], ["NODE_DEAD", `device ${dead} has ended`], what);
      failed++;
      continue;
    }
    const pushes = rounds.get(`${key} ${round}`)!;
    const devices = pushes.map((push) => push.device);
    assert.ok(devices.length >= drawn.deviceCount - (dead < 0 ? 0 : 1), what);
    assert.ok(
      devices.every((each, i) => i === 0 || each > devices[i - 1]!),
      what,
    );
    // ((d0 + d1) + d2) + …, each sum rounded
    const sums = outcome.values.map((_, i) => pushes.map(({ values }) => values[i]!).reduce((sum, value) => Math.fround(sum + value)));
    assert.deepEqual(outcome.values, sums, what);
    ended++;
  }
  return { ended, failed };
}

test("every device gets the same bits, the sum of its own round, and all rounds come to an end, for 200 seeds", async () => {
  let count = 0;
  await forSeeds({ from: 1, count: 200 }, async (seed) => {
    const drawn = drawnOf(seed, false);
    const threads = new LevelOneThreads(drawn);
    assert.ok(await threads.run(), "a device waits for ever");
    const { ended, failed } = check(threads);
    assert.deepEqual([ended, failed], [drawn.deviceCount * drawn.keyCount * drawn.roundCount, 0]);
    count += ended;
  });
  assert.ok(count > 4000);
});

test("a thread that dies at any moment, also within a share, fails what waits for it with its name, for 300 seeds", async () => {
  let [all, told] = [0, 0];
  await forSeeds({ from: 1, count: 300 }, async (seed) => {
    const threads = new LevelOneThreads(drawnOf(seed, true));
    assert.ok(await threads.run(), "a device waits for ever");
    const { ended, failed } = check(threads);
    all += ended;
    told += failed;
  });
  assert.ok(all > 1000 && told > 200, `${all} ended, ${told} failed`);
});

test("threads that do not hear their bells wait for ever: the scheduler would see a wake-up that is lost", async () => {
  let stuck = 0;
  for (let seed = 1; seed <= 20; seed++) if (!(await new LevelOneThreads({ ...drawnOf(seed, false), isDeaf: true }).run())) stuck++;
  assert.ok(stuck > 0);
});
