// training-progress — writes how far a training job is into a checkpoint, and reads from it where a resumed job begins.

import { resolve } from "node:path";
import { WeighbridgeError } from "../../base/errors.ts";
import { CheckpointReader } from "../../node/checkpoint/checkpoint-reader.ts";
import type { JsonObject } from "../../wire/json-value.ts";
import { newestCheckpoint } from "./run-directory.ts";
import { consistencyText, stepsPerEpoch, type TrainPlan, type TrainPosition } from "./train-plan.ts";

/** Settings that a resumed job must not change, or its steps would differ. */
function fixedOf(plan: TrainPlan): JsonObject {
  const { task, batchSize, sampleCount, seed, learningRate, workers } = plan;
  const consistency = consistencyText(plan.consistency);
  const fixed = { task, batchSize, sampleCount, seed, learningRate, consistency };
  return consistency === "bsp" ? fixed : { ...fixed, workers }; // each worker's updates count by themselves
}

/** The flags that set them. */
const FLAGS: Readonly<Record<string, string>> = {
  batchSize: "--batch-size",
  sampleCount: "--limit",
  seed: "--seed",
  learningRate: "--learning-rate",
  consistency: "--consistency",
  workers: "--workers",
};

export function progressNote(plan: TrainPlan, { epoch, step }: TrainPosition): JsonObject {
  return { ...fixedOf(plan), epoch, step };
}

/**
 * The position to resume at, and the checkpoint. Throws CHECKPOINT_MISSING, _FOREIGN, _TORN or _IO, and BAD_CONFIG if
 * the plan is not that of the checkpoint.
 */
export async function findProgress(plan: TrainPlan): Promise<{ readonly position: TrainPosition; readonly path: string }> {
  const path = await newestCheckpoint(resolve(plan.checkpointDir ?? ""));
  const reader = await CheckpointReader.open(path);
  const { note } = reader.manifest.state;
  await reader.close();
  return { position: positionOf(plan, note, path), path };
}

export function positionOf(plan: TrainPlan, note: unknown, path: string): TrainPosition {
  const { epoch, step, ...saved } = (note ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof epoch !== "number" || typeof step !== "number") {
    throw new WeighbridgeError(
      "CHECKPOINT_FOREIGN",
      `${path} was not saved by weighbridge train: it does not say how far the training was`,
    );
  }
  const problems = Object.entries(fixedOf(plan))
    .filter(([key, value]) => saved[key] !== value)
    .map(([key, value]) => `${FLAGS[key] ?? key} was ${text(saved[key])}, and is ${text(value)} now`);
  if (problems.length > 0) {
    throw new WeighbridgeError("BAD_CONFIG", `--resume continues with what ${path} was trained with: ${problems.join("; ")}`);
  }
  const position = step >= stepsPerEpoch(plan) ? { epoch: epoch + 1, step: 0 } : { epoch, step };
  if (position.epoch >= plan.epochs) {
    throw new WeighbridgeError(
      "BAD_CONFIG",
      `${path} is after epoch ${position.epoch}: to continue, set --epochs to more than ${plan.epochs}`,
    );
  }
  return position;
}

function text(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
