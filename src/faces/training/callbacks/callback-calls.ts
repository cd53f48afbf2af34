// callback-calls — calls the callbacks of one training, in order, and remembers whether one of them stops it. It does
// not decide when all workers stop: the trainer does (trainer.ts).
//
// Invariants:
//   CallbackCalls.C1. While a hook runs the training stands still: `pause` says so to the model, and returns when all
//       that the hook began on the model is over.
//   CallbackCalls.C2. Every callback whose training has begun gets one `end`, also after a failure of another one.

import type { CallbackOutcome, EpochEvent, StepEvent, TrainingCallback, TrainingView } from "./callback.ts";

export type CallbackCallsOptions = {
  readonly callbacks: readonly TrainingCallback[];
  readonly view: TrainingView;
  /** CallbackCalls.C1 */
  readonly pause: (run: () => Promise<void>) => Promise<void>;
};

/** What ended a training early: anything may be thrown. */
export type TrainingFailure = { readonly thrown: unknown };

export class CallbackCalls {
  /** A callback returned false. */
  isStopping = false;
  readonly #options: CallbackCallsOptions;

  constructor(options: CallbackCallsOptions) {
    this.#options = options;
  }

  async begin(): Promise<void> {
    await this.#each((callback, view) => callback.begin?.(view));
  }

  async stepEnd(event: StepEvent): Promise<void> {
    await this.#each((callback, view) => callback.stepEnd?.(event, view));
  }

  async epochEnd(event: EpochEvent): Promise<void> {
    await this.#each((callback, view) => callback.epochEnd?.(event, view));
  }

  /** Tells each callback the first failure so far, and returns it (CallbackCalls.C2). */
  async end(failure: TrainingFailure | undefined): Promise<TrainingFailure | undefined> {
    let first = failure;
    await this.#each(async (callback, view) => {
      try {
        await callback.end?.(view, first?.thrown);
      } catch (thrown) {
        first ??= { thrown };
      }
    });
    return first;
  }

  async #each(call: (callback: TrainingCallback, view: TrainingView) => CallbackOutcome): Promise<void> {
    const { callbacks, view, pause } = this.#options;
    if (callbacks.length === 0) return;
    await pause(async () => {
      for (const callback of callbacks) if ((await call(callback, view)) === false) this.isStopping = true;
    });
  }
}
