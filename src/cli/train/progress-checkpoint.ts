// progress-checkpoint — saves a training on the servers, with a note of how far it was, so that it can be resumed.
//
//   bsp         after every epoch, and every so many steps if the plan says so: at a clock all workers have made the
//               same steps, as long as none has died
//   ssp, asp    after every epoch only: in between, workers are at different steps
//
// Invariants:
//   ProgressCheckpoint.P1. Only the reporting worker saves; where all come together for it, the first of those who
//       came. A worker that came when the epoch was over for the others saves nothing, and comes wherever they may
//       wait.
//   ProgressCheckpoint.P2. One save at a time: a step that is due during a save is skipped; the end of an epoch is not.
//   ProgressCheckpoint.P3. A checkpoint records exactly the batches that are in it. Once a worker has died, the others
//       do its parts when they come to them, and no step is the end of all batches before it: from then on only the end
//       of an epoch is.
//   ProgressCheckpoint.P4. A save that fails is reported at once and ends nothing: the next one that is due is tried.
//       The last one has to succeed.
//   ProgressCheckpoint.P5. Rows that workers cache are on the servers at the end of an epoch, and do not change until
//       the save is done.
//   ProgressCheckpoint.P6. If updates are applied as they arrive, no worker continues after an epoch before the cut is
//       made: the checkpoint would have some of the next epoch's updates.
//   ProgressCheckpoint.P7. The end of the training is saved when its result is known: a model whose outputs are not
//       finite does not replace one whose outputs are.
//   ProgressCheckpoint.P8. A checkpoint is named after the steps that are in it, over all epochs, not after a clock: a
//       worker that does the parts of a dead one makes more steps than the job. A checkpoint that an earlier reporting
//       worker saved before it died is not saved again.

import type { Session } from "../../api/session.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import type { EpochEvent, StepEvent, TrainingCallback } from "../../faces/training/callbacks/callback.ts";
import { stepsDone, type TrainPlan, type TrainPosition } from "./train-plan.ts";
import { progressNote } from "./training-progress.ts";

const KEPT = 3;

export type ProgressCheckpointOptions = {
  readonly plan: TrainPlan;
  readonly session: Pick<Session, "checkpoint">;
  /** The checkpoint of this step, if it exists. */
  readonly find: (step: number) => string | undefined;
  readonly isReporter: () => boolean;
  /** Whether no worker has died. */
  readonly isWhole: () => boolean;
  /**
   * A rendezvous of all workers after an epoch, before the cut and after it: resolves when all that live have come, at
   * one clock, with whether this worker is the first of them.
   */
  readonly meet: (when: "epoch" | "cut", epoch: number) => Promise<boolean>;
  readonly onSaved: (path: string, position: TrainPosition) => void;
  /** Called for a save that failed, if another one will be tried. */
  readonly onFailed: (error: unknown) => void;
};

export class ProgressCheckpoint implements TrainingCallback {
  readonly #options: ProgressCheckpointOptions;
  #saving: Promise<void> | undefined;
  #saved: TrainPosition | undefined;

  constructor(options: ProgressCheckpointOptions) {
    this.#options = options;
  }

  stepEnd(event: StepEvent): void {
    const { plan, isWhole } = this.#options;
    const { checkpointEvery } = plan;
    const { epoch, stepCount, globalStep: step } = event;
    const isDue = checkpointEvery !== undefined && step % checkpointEvery === 0 && step < stepCount;
    // ProgressCheckpoint.P2, ProgressCheckpoint.P3.
    if (!isDue || this.#saving !== undefined || !this.#maySave || !isWhole()) return;
    void this.#start({ epoch: epoch - 1, step }); // training goes on meanwhile
  }

  async epochEnd({ epoch, isMissed }: EpochEvent): Promise<void> {
    const { plan } = this.#options;
    if (plan.checkpointDir === undefined || epoch === plan.epochs) return; // ProgressCheckpoint.P7
    if (plan.consistency !== "bsp") await this.#saveTogether(epoch);
    else if (this.#maySave && !isMissed) {
      await this.#saving;
      void this.#start({ epoch, step: 0 });
      if (plan.cacheRows > 0) await this.#saving; // ProgressCheckpoint.P5: nobody goes on without this worker
    }
  }

  /**
   * At the end of the training, by one worker (ProgressCheckpoint.P7). Throws what session.checkpoint throws at the
   * second attempt.
   */
  async saveLast(): Promise<void> {
    const { plan } = this.#options;
    await this.#saving;
    if (plan.checkpointDir === undefined) return;
    const end = { epoch: plan.epochs, step: 0 };
    void this.#start(end);
    await this.#saving;
    if (this.#saved?.epoch !== plan.epochs) await this.#save(end); // ProgressCheckpoint.P4
  }

  /** ProgressCheckpoint.P6. A cut is made at a clock that all workers have reached. */
  async #saveTogether(epoch: number): Promise<void> {
    const { meet } = this.#options;
    if (await meet("epoch", epoch)) {
      await this.#saving;
      await this.#start({ epoch, step: 0 });
    }
    await meet("cut", epoch);
  }

  get #maySave(): boolean {
    const { plan, isReporter } = this.#options;
    return plan.checkpointDir !== undefined && isReporter(); // ProgressCheckpoint.P1
  }

  /** ProgressCheckpoint.P4. Resolves when the cut is made, or when there will be none. */
  #start(position: TrainPosition): Promise<void> {
    const cut = Promise.withResolvers<void>();
    this.#saving = this.#save(position, cut.resolve)
      .catch(this.#options.onFailed)
      .finally(() => {
        this.#saving = undefined;
        cut.resolve();
      });
    return cut.promise;
  }

  async #save(position: TrainPosition, atCut: () => void = () => {}): Promise<void> {
    const { plan, session, find, isWhole, onSaved } = this.#options;
    const step = stepsDone(plan, position); // ProgressCheckpoint.P8
    const onCut = (): void => {
      if (position.step !== 0 && !isWhole()) {
        // ProgressCheckpoint.P3: nothing is kept of it.
        throw new WeighbridgeError("NODE_DEAD", "a worker died before all of its batches were in the checkpoint");
      }
      atCut();
    };
    const note = progressNote(plan, position);
    const path = find(step) ?? (await session.checkpoint({ step, job: plan.task, keep: KEPT, note, onCut })).path;
    this.#saved = position;
    onSaved(path, position);
  }
}
