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
//       The last one has to succeed: it is tried again at once, and LAST_TRIES times in all unless the disk refuses it.
//       Servers whose heads have died take over meanwhile.
//   ProgressCheckpoint.P5. Rows that workers cache are on the servers at the end of an epoch, and do not change until
//       the save is done.
//   ProgressCheckpoint.P6. If updates are applied as they arrive, no worker continues after an epoch before the cut is
//       made: the checkpoint would have some of the next epoch's updates.
//   ProgressCheckpoint.P7. The end of the training is saved when its result is known: a model whose outputs are not
//       finite does not replace one whose outputs are.
//   ProgressCheckpoint.P8. A checkpoint is named after the steps that are in it, over all epochs, not after a clock: a
//       worker that does the parts of a dead one makes more steps than the job. A checkpoint that an earlier reporting
//       worker saved before it died is not saved again.

import type { TakenCheckpoint } from "../../api/checkpoint.ts";
import type { Session } from "../../api/session.ts";
import { sleep } from "../../base/deferred.ts";
import { isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import type { EpochEvent, StepEvent, TrainingCallback } from "../../faces/training/callbacks/callback.ts";
import { type Interval, intervalOf } from "../../node/config/interval.ts";
import { stepsDone, type TrainPlan, type TrainPosition } from "./train-plan.ts";
import { progressNote } from "./training-progress.ts";

const KEPT = 3;
/** ProgressCheckpoint.P4 */
const LAST_TRIES = 10;
const TRY_AGAIN_MS = 1000;

export type ProgressCheckpointOptions = {
  readonly plan: TrainPlan;
  readonly session: Pick<Session, "checkpoint" | "time">;
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
  /** When the last save began, or the training. */
  #savedAtMs: number;

  constructor(options: ProgressCheckpointOptions) {
    this.#options = options;
    this.#savedAtMs = options.session.time.nowMs();
  }

  stepEnd(event: StepEvent): void {
    const { plan, isWhole } = this.#options;
    const { epoch, stepCount, epochStep: step } = event;
    const isDue = plan.checkpointEvery !== undefined && this.#isDue(intervalOf(plan.checkpointEvery), step) && step < stepCount;
    // ProgressCheckpoint.P2, ProgressCheckpoint.P3.
    if (!isDue || this.#saving !== undefined || !this.#maySave || !isWhole()) return;
    void this.#start({ epoch: epoch - 1, step }); // training goes on meanwhile
  }

  #isDue(interval: Interval, step: number): boolean {
    if ("everySteps" in interval) return step % interval.everySteps === 0;
    return this.#options.session.time.nowMs() - this.#savedAtMs >= interval.everyMs;
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
   * last attempt.
   */
  async saveLast(): Promise<void> {
    const { plan, session, onFailed } = this.#options;
    await this.#saving;
    if (plan.checkpointDir === undefined) return;
    const end = { epoch: plan.epochs, step: 0 };
    void this.#start(end);
    await this.#saving;
    for (let left = LAST_TRIES - 1; this.#saved?.epoch !== plan.epochs; left--)
      try {
        await this.#save(end); // ProgressCheckpoint.P4
      } catch (thrown) {
        if (left === 1 || isWeighbridgeError(thrown, "CHECKPOINT_IO")) throw thrown;
        onFailed(thrown);
        await sleep(session.time, TRY_AGAIN_MS);
      }
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
    this.#savedAtMs = this.#options.session.time.nowMs();
    this.#saving = this.#save(position, cut.resolve)
      .catch(this.#options.onFailed)
      .finally(() => {
        this.#saving = undefined;
        cut.resolve();
      });
    return cut.promise;
  }

  async #save(position: TrainPosition, atCut: () => void = () => {}): Promise<void> {
    const { plan, find, onSaved } = this.#options;
    const step = stepsDone(plan, position); // ProgressCheckpoint.P8
    const path = find(step) ?? (await this.#take(position, step, atCut)).path;
    this.#saved = position;
    onSaved(path, position);
  }

  /** Gives the checkpoint up if a worker has died before the cut: nothing is kept of it (ProgressCheckpoint.P3). */
  async #take(position: TrainPosition, step: number, atCut: () => void): Promise<TakenCheckpoint> {
    const { plan, session, isWhole } = this.#options;
    const giveUp = new AbortController();
    const { signal } = giveUp;
    const { cut, saved } = session.checkpoint({ step, job: plan.task, keep: KEPT, note: progressNote(plan, position), signal });
    try {
      await cut;
      if (position.step !== 0 && !isWhole())
        giveUp.abort(new WeighbridgeError("NODE_DEAD", "a worker died before all of its batches were in the checkpoint"));
      else atCut();
      return await saved;
    } catch (thrown) {
      throw signal.aborted ? signal.reason : thrown;
    }
  }
}
