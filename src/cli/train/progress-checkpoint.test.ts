// Goal: checkpoints where a training can go on from, by the one worker that speaks for all, one at a time.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { CheckpointOptions, TakenCheckpoint } from "../../api/checkpoint.ts";
import type { StepEvent } from "../../training/callbacks/callback.ts";
import { ProgressCheckpoint } from "./progress-checkpoint.ts";
import { planTraining, type TrainFlags } from "./train-plan.ts";

const FLAGS: TrainFlags = { workers: 2, servers: 2, seed: 1, checkpoint: true, overlap: true, epochs: 2, limit: 640 };

function event(epoch: number, step: number): StepEvent {
  return { epoch, epochCount: 2, step, stepCount: 10, loss: 1, samplesPerSec: 1, stepsPerSec: 1, waitShare: 0 };
}

async function run(
  flags: Partial<TrainFlags>,
  options: { readonly isSpeaker?: boolean; readonly isSlow?: boolean } = {},
): Promise<string[]> {
  const { isSpeaker = true, isSlow = false } = options;
  const saved: string[] = [];
  const slow = Promise.withResolvers<void>();
  const session = {
    checkpoint: async ({ note }: CheckpointOptions = {}): Promise<TakenCheckpoint> => {
      saved.push(`${JSON.stringify(note?.epoch)}.${JSON.stringify(note?.step)}`);
      if (isSlow) await slow.promise;
      return { step: 0, clock: 0, path: "here", warning: undefined };
    },
  };
  const plan = planTraining("lenet", { ...FLAGS, ...flags });
  const checkpoint = new ProgressCheckpoint({ plan, session, isSpeaker: () => isSpeaker, onSaved: () => {} });
  for (const epoch of [1, 2]) {
    for (let step = 1; step <= 10; step++) {
      checkpoint.stepEnd(event(epoch, step));
      await new Promise((resolve) => setImmediate(resolve));
    }
    slow.resolve();
    await checkpoint.epochEnd({ ...event(epoch, 10), seconds: 1, repeatedCount: 0 });
  }
  await checkpoint.saveLast();
  return saved;
}

test("with bsp after every epoch, with the place to go on from", async () => {
  assert.deepEqual(await run({}), ["1.0", "2.0"]);
});

test("every so many steps too, the end of an epoch once", async () => {
  assert.deepEqual(await run({ checkpointEvery: 4 }), ["0.4", "0.8", "1.0", "1.4", "1.8", "2.0"]);
  assert.deepEqual(await run({ checkpointEvery: 5 }), ["0.5", "1.0", "1.5", "2.0"]);
});

test("a step that is due while one is being saved is passed over (P2)", async () => {
  assert.deepEqual((await run({ checkpointEvery: 2 }, { isSlow: true })).slice(0, 2), ["0.2", "1.0"]);
});

test("without bsp at the end alone", async () => {
  assert.deepEqual(await run({ consistency: "asp" }), ["2.0"]);
});

test("who does not speak for all saves nothing (P1), and nobody with --no-checkpoint", async () => {
  assert.deepEqual(await run({}, { isSpeaker: false }), []);
  assert.deepEqual(await run({ checkpoint: false }), []);
});
