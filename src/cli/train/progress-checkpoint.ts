// progress-checkpoint — saves a training on the servers, with a note of how far it was, so that it can be gone on with from there.
//
//   bsp         after every epoch, and every so many steps where the plan says so: at a clock everybody's steps are the same
//   ssp, asp    after the last epoch alone: before, workers are at different steps
//
// Invariants:
//   P1. The worker that speaks for all saves, and no other.
//   P2. One save at a time: a step that is due while the one before is under way is passed over; the end of an epoch is not.

import type { Session } from "../../api/session.ts";
import type { EpochEvent, StepEvent, TrainingCallback } from "../../training/callbacks/callback.ts";
import { stepOfEpoch, type TrainPlan, type TrainPosition } from "./train-plan.ts";
import { progressNote } from "./training-progress.ts";

const KEPT = 3;

export type ProgressCheckpointOptions = {
  readonly plan: TrainPlan;
  readonly session: Pick<Session, "checkpoint">;
  readonly isSpeaker: () => boolean;
  readonly onSaved: (path: string) => void;
};

export class ProgressCheckpoint implements TrainingCallback {
  readonly #options: ProgressCheckpointOptions;
  #saving: Promise<void> | undefined;
  #saved: TrainPosition | undefined;

  constructor(options: ProgressCheckpointOptions) {
    this.#options = options;
  }

  stepEnd(event: StepEvent): void {
    const { plan } = this.#options;
    const { checkpointEvery } = plan;
    const { epoch, stepCount } = event;
    const step = stepOfEpoch(plan, event);
    const isDue = checkpointEvery !== undefined && step % checkpointEvery === 0 && step < stepCount;
    if (!isDue || this.#saving !== undefined || !this.#mayCut) return; // P2
    this.#start({ epoch: epoch - 1, step }); // training goes on meanwhile
  }

  async epochEnd({ epoch }: EpochEvent): Promise<void> {
    if (!this.#mayCut) return;
    await this.#saving;
    this.#start({ epoch, step: 0 });
    if (epoch === this.#options.plan.epochs) await this.#saving;
  }

  /** At the end of the training, where it was not saved yet. */
  async saveLast(): Promise<void> {
    const { plan, isSpeaker } = this.#options;
    await this.#saving;
    if (plan.checkpointDir === undefined || !isSpeaker() || this.#saved?.epoch === plan.epochs) return;
    await this.#save({ epoch: plan.epochs, step: 0 });
  }

  get #mayCut(): boolean {
    const { plan, isSpeaker } = this.#options;
    return plan.checkpointDir !== undefined && plan.consistency === "bsp" && isSpeaker(); // P1
  }

  #start(position: TrainPosition): void {
    const saving = this.#save(position).finally(() => {
      if (this.#saving === saving) this.#saving = undefined;
    });
    saving.catch(() => {}); // whoever waits next is told
    this.#saving = saving;
  }

  async #save(position: TrainPosition): Promise<void> {
    const { plan, session, onSaved } = this.#options;
    const { path } = await session.checkpoint({ job: plan.task, keep: KEPT, note: progressNote(plan, position) });
    this.#saved = position;
    onSaved(path);
  }
}
