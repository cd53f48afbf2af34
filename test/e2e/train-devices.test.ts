// train-devices — Goal: `weighbridge train --devices` learns what one device learns, saves it, and goes on from there.

import assert from "node:assert/strict";
import { test } from "node:test";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { Processes } from "./processes.ts";

const STEPS_PER_EPOCH = 20;
/** Of losses: devices add the gradients of a batch in another order than one device does. */
const BOUND = 2e-3;

type Result = { readonly losses: readonly number[]; readonly accuracy: number; readonly transcript: string };

/** 20 batches of 64 in an epoch, one worker, one server; the loss of every fifth step. */
async function trained(processes: Processes, ...flags: readonly (string | number)[]): Promise<Result> {
  const job = processes.weighbridge(["train", "lenet", "--limit", 64 * STEPS_PER_EPOCH, "--every", 5, "-w", 1, "-s", 1, ...flags]);
  await job.succeeds();
  const losses = [...job.stdout.matchAll(/^ {2}epoch: \d+ step: (?:5|10|15|20), loss is (\d\.\d{6})$/gm)].map(([, loss]) => Number(loss));
  const [, accuracy] = await job.says(/^ {2}accuracy {5}(\d+\.\d\d) % of 10,000 digits/);
  return { losses, accuracy: Number(accuracy), transcript: job.transcript };
}

function assertClose(actual: Result, expected: Result): void {
  assert.equal(actual.losses.length, expected.losses.length, actual.transcript);
  for (const [i, loss] of expected.losses.entries())
    assert.ok(Math.abs(actual.losses[i]! - loss) <= BOUND, `${actual.losses.join(" ")}\n${expected.losses.join(" ")}`);
  assert.ok(Math.abs(actual.accuracy - expected.accuracy) <= 0.5, `${actual.accuracy} and ${expected.accuracy} %`);
}

test("2 and 3 devices lose and read digits as one does: losses within 2e-3, accuracy within half a percent", async () => {
  await using processes = new Processes();
  const one = await trained(processes, "--no-checkpoint");
  assert.equal(one.losses.length, 4, one.transcript);
  for (const devices of [2, 3]) assertClose(await trained(processes, "--no-checkpoint", "--devices", devices), one);
});

test("a training with devices goes on from its checkpoint with the same bits, and with one device within 2e-3", async () => {
  await using processes = new Processes();
  const [whole, saved] = [temporaryDirectory("train-devices"), temporaryDirectory("train-devices")];
  const through = await trained(processes, "--devices", 2, "--epochs", 2, "--checkpoint-dir", whole);
  await trained(processes, "--devices", 2, "--checkpoint-dir", saved);
  const resumed = await trained(processes, "--devices", 2, "--epochs", 2, "--resume", "--checkpoint-dir", saved);
  assert.deepEqual([resumed.losses, resumed.accuracy], [through.losses.slice(4), through.accuracy], resumed.transcript);
  const directory = temporaryDirectory("train-devices");
  await trained(processes, "--devices", 2, "--checkpoint-dir", directory);
  const alone = await trained(processes, "--epochs", 2, "--resume", "--checkpoint-dir", directory);
  assertClose(alone, resumed);
});
