// Checkpoints under links that fail, servers that die and disks that fill up or lose their power: the quick share; npm
// run soak takes many more seeds.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import type { Changes } from "../../src/testing/change-placement.ts";
import { PAYLOAD_BYTES_MAX } from "../../src/wire/frame.ts";
import { Checkpoints, type Tally, undisturbed } from "./checkpoints.ts";
import { LARGE_MODEL_PARAMETERS, saveLargeManifest } from "./large-manifest.ts";
import { forSeeds } from "./seeds.ts";

const SEEDS = 7;
const CHANGING_SEEDS = 1;
let reference: readonly (readonly number[])[];
const totals: Partial<Tally> = {};

before(async () => {
  reference = await undisturbed();
});

test(`no cut is wrong and none is lost, whoever dies and onto however many servers, for ${SEEDS} seeds`, async () => {
  await forSeeds({ from: 1, count: SEEDS }, async (seed) => {
    const story = new Checkpoints(seed, reference);
    await story.run();
    for (const [name, count] of Object.entries(story.tally)) {
      totals[name as keyof Tally] = (totals[name as keyof Tally] ?? 0) + count;
    }
  });
});

test(`so it is while parts move from server to server, for ${CHANGING_SEEDS} seeds`, async () => {
  const changes: Changes = { count: 0 };
  await forSeeds({ from: 101, count: CHANGING_SEEDS }, async (seed) => await new Checkpoints(seed, reference, changes).run());
  assert.ok(changes.count > CHANGING_SEEDS, `${changes.count} changes`);
});

test("everything that can happen to a checkpoint happened", () => {
  for (const [name, count] of Object.entries(totals)) assert.ok(count >= 5, `${name}: ${count}`);
});

test("the command line, which asks through the scheduler in control frames, saves and restores a model whose manifest is larger than those", async () => {
  const { manifestBytes, saved, restored } = await saveLargeManifest();
  assert.ok(manifestBytes > PAYLOAD_BYTES_MAX, `${manifestBytes} bytes`);
  assert.equal(restored.clock, saved.clock);
  assert.equal(restored.parameters.length, LARGE_MODEL_PARAMETERS);
});
