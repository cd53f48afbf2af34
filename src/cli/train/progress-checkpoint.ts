// progress-checkpoint — saves a training on the servers, with a note of how far it was, so that it can be resumed.
//
//   bsp         after every epoch, and every so many steps where the plan says so: at a clock all workers have made the
//               same steps, as long as nobody is gone
//   ssp, asp    after every epoch: before, workers are at different steps
//
// Invariants:
//   P1. The worker that speaks for all saves, and no other.
//   P2. One save at a time: a step that is due while the one before is under way is passed over; the end of an epoch is
//       not.
//   P3. What is saved says truly which batches are in it. Once a worker is gone the others do its parts when they come
//       to them, and no step is the end of all batches before it: from then on only the end of an epoch is.
//   P4. A save that fails is told at once and ends nothing: the next one that is due is tried. The last one has to
//       succeed.
//   P5. Rows that workers keep are on the servers at the end of an epoch and do not change until it is saved.
//   P6. Where updates count as they arrive, nobody goes on after an epoch before the cut is made: what is saved would
//       have some of the next one's.
//   P7. The end of the training is saved when what it came to is known: a model that gives no numbers any more does not
//       take the place of one that does.
//   P8. A checkpoint is called by the steps that are in it, of all epochs, and not by a clock: a worker that does the
//       parts of one that died makes more steps than the job. One that an earlier speaker saved before it died is not
//       saved again.

import type { Session } from "../../api/session.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import type { EpochEvent, StepEvent, TrainingCallback } from "../../faces/training/callbacks/callback.ts";
import { stepOfEpoch, stepsDone, type TrainPlan, type TrainPosition } from "./train-plan.ts";
import { progressNote } from "./training-progress.ts";

const KEPT = 3;

export type ProgressCheckpointOptions = {
  readonly plan: TrainPlan;
  readonly session: Pick<Session, "checkpoint">;
  /** The checkpoint of this step, if there is one. */
  readonly find: (step: number) => string | undefined;
  readonly isSpeaker: () => boolean;
  /** Whether every worker that the job began with is there. */
  readonly isWhole: () => boolean;
  /**
   * Every worker comes to it, after an epoch: resolves when all who live are there, at one clock. Before the cut, and
   * after it.
   */
  readonly meet: (when: "epoch" | "cut", epoch: number) => Promise<void>;
  readonly onSaved: (path: string, position: TrainPosition) => void;
  /** Told of a save that failed, where another one will be tried. */
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
    const { epoch, stepCount } = event;
    const step = stepOfEpoch(plan, event);
    const isDue = checkpointEvery !== undefined && step % checkpointEvery === 0 && step < stepCount;
    if (!isDue || this.#saving !== undefined || !this.#maySave || !isWhole()) return; // P2, P3
    void this.#start({ epoch: epoch - 1, step }); // training goes on meanwhile
  }

  async epochEnd({ epoch }: EpochEvent): Promise<void> {
    const { plan } = this.#options;
    if (plan.checkpointDir === undefined || epoch === plan.epochs) return; // P7
    if (plan.consistency !== "bsp") await this.#saveTogether(epoch);
    else if (this.#maySave) {
      await this.#saving;
      void this.#start({ epoch, step: 0 });
      if (plan.cacheRows > 0) await this.#saving; // P5: nobody goes on without this worker
    }
  }

  /** At the end of the training, by one worker (P7). Throws what session.checkpoint throws, the second time. */
  async saveLast(): Promise<void> {
    const { plan } = this.#options;
    await this.#saving;
    if (plan.checkpointDir === undefined) return;
    const end = { epoch: plan.epochs, step: 0 };
    void this.#start(end);
    await this.#saving;
    if (this.#saved?.epoch !== plan.epochs) await this.#save(end); // P4
  }

  /** P6. A cut is made at a clock that all have come to. */
  async #saveTogether(epoch: number): Promise<void> {
    const { meet } = this.#options;
    await meet("epoch", epoch);
    if (this.#maySave) {
      await this.#saving;
      await this.#start({ epoch, step: 0 });
    }
    await meet("cut", epoch);
  }

  get #maySave(): boolean {
    const { plan, isSpeaker } = this.#options;
    return plan.checkpointDir !== undefined && isSpeaker(); // P1
  }

  /** P4. Resolves when the cut is made, or when there will be none. */
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
    const step = stepsDone(plan, position); // P8
    const onCut = (): void => {
      if (position.step !== 0 && !isWhole()) {
        throw new WeighbridgeError("NODE_DEAD", "a worker died before its part of all batches was in"); // P3: nothing is kept of it
      }
      atCut();
    };
    const note = progressNote(plan, position);
    const path = find(step) ?? (await session.checkpoint({ step, job: plan.task, keep: KEPT, note, onCut })).path;
    this.#saved = position;
    onSaved(path, position);
  }
}
