// Goal: checkpoints where a training can go on from, by the one worker that speaks for all, one at a time.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import type { Checkpoint, CheckpointOptions, TakenCheckpoint } from "../../api/checkpoint.ts";
import { type ErrorCode, isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import type { StepEvent } from "../../faces/training/callbacks/callback.ts";
import { realClock } from "../../node/real-clock.ts";
import { ProgressCheckpoint } from "./progress-checkpoint.ts";
import { planTraining, type TrainFlags } from "./train-plan.ts";

const FLAGS: TrainFlags = { workers: 2, servers: 2, seed: 1, checkpoint: true, overlap: false, epochs: 2, limit: 640 };

function event(epoch: number, step: number): StepEvent {
  const shares = { waitShare: 0, sendShare: 0 };
  const steps = { epoch, epochCount: 2, step, stepCount: 10, epochStep: step, globalStep: 10 * (epoch - 1) + step };
  return { ...steps, loss: 1, samplesPerSec: 1, stepsPerSec: 1, ...shares };
}

type Circumstances = {
  readonly isReporter?: boolean;
  /** It came when both epochs were over. */
  readonly isMissed?: boolean;
  /** Saves of the first epoch end with it. */
  readonly isSlow?: boolean;
  /** Which saves fail, counted from 1. */
  readonly fails?: (save: number) => boolean;
  readonly failure?: ErrorCode;
  /**
   * A worker is gone from step 5 of the first epoch on; "while saving": between asking for the first save and its cut.
   */
  /** Steps of which a speaker before this one saved a checkpoint. */
  readonly isSaved?: (step: number) => boolean;
  readonly dies?: "at step 5" | "while saving";
};

type Run = {
  readonly saved: string[];
  /** What they are called by. */
  readonly names: readonly (number | undefined)[];
  readonly failures: unknown[];
  readonly last: unknown;
  /** Meetings and saves, in the order in which they were. */
  readonly order: readonly string[];
};

async function follow(flags: Partial<TrainFlags>, circumstances: Circumstances = {}): Promise<Run> {
  const { isReporter = true, isSlow = false, isMissed = false, fails = () => false, isSaved = () => false, dies } = circumstances;
  const { failure = "CHECKPOINT_IO" } = circumstances;
  const [saved, failures, order]: [string[], unknown[], string[]] = [[], [], []];
  const names: (number | undefined)[] = [];
  const slow = Promise.withResolvers<void>();
  let [isWhole, saveCount] = [true, 0];
  const session = {
    time: { ...realClock(), after: (_delayMs: number, run: () => void) => realClock().after(0, run) },
    checkpoint: (options: CheckpointOptions = {}): Checkpoint => {
      if (dies === "while saving") isWhole = false;
      const cut = turn().then(() => {
        order.push("saved");
        if (fails(++saveCount)) throw new WeighbridgeError(failure, `no space for save ${saveCount}`);
      });
      const saved = cut.then(turn).then(async () => await save(options));
      saved.catch(() => {}); // as a session's
      return { cut, saved };
    },
  };
  const save = async ({ step, note, signal }: CheckpointOptions): Promise<TakenCheckpoint> => {
    signal?.throwIfAborted();
    names.push(step);
    saved.push(`${JSON.stringify(note?.epoch)}.${JSON.stringify(note?.step)}`);
    if (isSlow) await slow.promise;
    return { step: 0, clock: 0, path: "here", warning: undefined };
  };
  const plan = planTraining("lenet", { ...FLAGS, ...flags });
  const onFailed = (error: unknown): number => failures.push(error);
  const meet = async (when: string, epoch: number): Promise<boolean> => {
    order.push(`${when} ${epoch}`);
    await turn();
    return isReporter;
  };
  const find = (step: number): string | undefined => (isSaved(step) ? `step-${step}` : undefined);
  const options = { plan, session, find, isReporter: () => isReporter, isWhole: () => isWhole, meet, onSaved: () => {}, onFailed };
  const checkpoint = new ProgressCheckpoint(options);
  for (const epoch of [1, 2]) {
    for (let step = 1; step <= 10 && !isMissed; step++) {
      if (dies === "at step 5" && step === 5) isWhole = false;
      checkpoint.stepEnd(event(epoch, step));
      await turn();
    }
    slow.resolve();
    await checkpoint.epochEnd({ ...event(epoch, 10), seconds: 1, repeatedCount: 0, isMissed });
  }
  await turn();
  const last: unknown = isReporter ? await checkpoint.saveLast().catch((error: unknown) => error) : undefined;
  return { saved, names, failures, last, order };
}

async function run(flags: Partial<TrainFlags>, circumstances: Circumstances = {}): Promise<string[]> {
  const { saved, failures, last } = await follow(flags, circumstances);
  assert.deepEqual([failures, last], [[], undefined]);
  return saved;
}

test("with bsp after every epoch, with the place to go on from", async () => {
  assert.deepEqual(await run({}), ["1.0", "2.0"]);
});

test("with bsp a worker does not save epochs that were over when it came: it has the values of a later one (ProgressCheckpoint.P1)", async () => {
  assert.deepEqual(await run({}, { isMissed: true }), ["2.0"], "only the result");
});

test("every so many steps too, the end of an epoch once", async () => {
  assert.deepEqual(await run({ checkpointEvery: "4steps" }), ["0.4", "0.8", "1.0", "1.4", "1.8", "2.0"]);
  assert.deepEqual(await run({ checkpointEvery: "5steps" }), ["0.5", "1.0", "1.5", "2.0"]);
});

test("a step that is due while one is being saved is passed over (ProgressCheckpoint.P2)", async () => {
  assert.deepEqual((await run({ checkpointEvery: "2steps" }, { isSlow: true })).slice(0, 2), ["0.2", "1.0"]);
});

test("without bsp after every epoch, too, and nobody goes on before the cut (ProgressCheckpoint.P6)", async () => {
  for (const consistency of ["asp", "ssp:4"]) {
    const { saved, order } = await follow({ consistency });
    assert.deepEqual(saved, ["1.0", "2.0"]);
    assert.deepEqual(order, ["epoch 1", "saved", "cut 1", "saved"]);
    assert.deepEqual((await follow({ consistency }, { isReporter: false })).order, ["epoch 1", "cut 1"], "who does not save waits as well");
    assert.deepEqual((await follow({ consistency, checkpoint: false })).order, []);
    const late = await follow({ consistency }, { isMissed: true, isReporter: false });
    assert.deepEqual(late.order, ["epoch 1", "cut 1"], "who came late waits and is waited for");
    assert.deepEqual((await follow({ consistency }, { isMissed: true })).saved, ["1.0", "2.0"], "the first of those who came saves");
  }
  assert.deepEqual((await follow({})).order, ["saved", "saved"], "with bsp nobody waits");
});

test("without bsp a save that fails before its cut does not keep the others waiting (ProgressCheckpoint.P4, ProgressCheckpoint.P6)", async () => {
  const { saved, failures, order } = await follow({ consistency: "asp" }, { fails: (save) => save === 1 });
  assert.deepEqual([saved, failures.length, order.at(-2)], [["2.0"], 1, "cut 1"]);
});

test("who does not speak for all saves nothing (ProgressCheckpoint.P1), and nobody with --no-checkpoint", async () => {
  assert.deepEqual(await run({}, { isReporter: false }), []);
  assert.deepEqual(await run({ checkpoint: false }), []);
});

test("once a worker is gone only ends of epochs are saved, as steps are no batches any more (ProgressCheckpoint.P3)", async () => {
  assert.deepEqual(await run({ checkpointEvery: "2steps" }, { dies: "at step 5" }), ["0.2", "0.4", "1.0", "2.0"]);
});

test("checkpoints are called by the steps that are in them, also after a worker died and the other makes more steps of its own (ProgressCheckpoint.P8)", async () => {
  assert.deepEqual((await follow({ checkpointEvery: "4steps" })).names, [4, 8, 10, 14, 18, 20]);
  assert.deepEqual((await follow({ checkpointEvery: "2steps" }, { dies: "at step 5" })).names, [2, 4, 10, 20]);
  assert.deepEqual((await follow({ consistency: "asp" })).names, [10, 20]);
});

test("what an earlier speaker saved before it died is not saved again, and is no failure (ProgressCheckpoint.P8)", async () => {
  const { saved, failures, last } = await follow({}, { isSaved: (step) => step === 20 });
  assert.deepEqual([saved, failures, last], [["1.0"], [], undefined]);
});

test("of a save in which a worker dies before the cut nothing is kept (ProgressCheckpoint.P3)", async () => {
  const { saved, failures } = await follow({ checkpointEvery: "4steps" }, { dies: "while saving" });
  assert.deepEqual(saved, ["1.0", "2.0"]);
  assert.ok(failures.length === 1 && isWeighbridgeError(failures[0], "NODE_DEAD"));
});

test("a save that fails is told, and the next one that is due is tried (ProgressCheckpoint.P4)", async () => {
  const { saved, failures, last } = await follow({ checkpointEvery: "4steps" }, { fails: (save) => save === 1 || save === 3 });
  assert.deepEqual(saved, ["0.8", "1.4", "1.8", "2.0"]);
  assert.deepEqual(
    failures.map((error) => isWeighbridgeError(error, "CHECKPOINT_IO")),
    [true, true],
  );
  assert.equal(last, undefined);
});

test("the last save is tried once more, and its failure thrown (ProgressCheckpoint.P4)", async () => {
  assert.deepEqual((await follow({}, { fails: (save) => save === 2 })).saved, ["1.0", "2.0"]);
  const { failures, last } = await follow({}, { fails: (save) => save >= 2 });
  assert.ok(failures.length === 1 && isWeighbridgeError(last, "CHECKPOINT_IO"));
});

test("the last save is tried again while servers change hands, a bounded number of times (ProgressCheckpoint.P4)", async () => {
  for (const failure of ["NODE_DEAD", "BAD_REQUEST"] as const) {
    const { saved, last } = await follow({}, { failure, fails: (save) => save >= 2 && save <= 5 });
    assert.deepEqual([saved, last], [["1.0", "2.0"], undefined]);
    const struck = await follow({}, { failure, fails: (save) => save >= 2 });
    assert.ok(struck.failures.length > 4 && isWeighbridgeError(struck.last, failure));
  }
});
