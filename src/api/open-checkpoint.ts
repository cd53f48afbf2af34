// open-checkpoint — a checkpoint that a session is taking, as its caller has it: two promises. The servers' part is in
// checkpoint.ts.

import { Deferred } from "../base/deferred.ts";
import { refuseFormer } from "../base/former-members.ts";
import type { Checkpoint, TakenCheckpoint } from "./checkpoint.ts";

/** What the one who takes it tells and asks. */
export type CutWatch = {
  readonly onCut: () => void;
  /** Whether the cut may be made again: nobody has seen the first one. */
  readonly mayCutAgain: () => boolean;
};

export class OpenCheckpoint implements Checkpoint {
  readonly saved: Promise<TakenCheckpoint>;
  readonly #cut = new Deferred<void>();
  #isCutRead = false;

  constructor(take: (watch: CutWatch) => Promise<TakenCheckpoint>) {
    this.saved = take({ onCut: this.#cut.resolve, mayCutAgain: () => !this.#isCutRead });
    this.saved.catch(this.#cut.reject); // neither rejection is unhandled before it is awaited
  }

  get cut(): Promise<void> {
    this.#isCutRead = true;
    return this.#cut.promise;
  }
}

const taken = (member: string): string => `(await session.checkpoint().saved).${member}`;
refuseFormer(
  { name: "what session.checkpoint() returns", prototype: OpenCheckpoint.prototype },
  { step: taken("step"), clock: taken("clock"), path: taken("path"), warning: taken("warning") },
);
