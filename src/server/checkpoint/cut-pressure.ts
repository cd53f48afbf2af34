// cut-pressure — slows pushes down while a full server is being saved. Rows that change during a cut exist twice until
// they are written, in the arena's reserve if there is no other room; pushes that are faster than the disk would use it
// up, and the checkpoint would be given up. A push is applied and answered at once; only the next frames of its link
// wait.
//
// Invariants:
//   CutPressure.P1. A link waits for the end of the cut, but not for long: this node must be seen alive. The link of
//       the worker that takes the checkpoint waits a moment for each update until the checkpoint is being written: its
//       next request is behind some of them.
//   CutPressure.P2. Nothing waits while there is room outside of the reserve for what a cut keeps.

import type { Clock } from "../../base/clock.ts";
import { Deferred, sleep } from "../../base/deferred.ts";
import type { WorkerIncarnation } from "../../consistency/worker-incarnations.ts";
import type { Arena } from "../../kernel/arena.ts";
import type { UpdatePressure } from "../../peer/function-host.ts";

const WAIT_MS = 2000;
const OWNER_WAIT_MS = 20;
/** From this share of the reserve on pushes slow down. */
const PRESSED_SHARE = 1 / 8;

/** A cut that is open. */
type OpenCut = {
  /** Bytes that exist twice. */
  readonly keptBytes: () => number;
  /** Whether its next request comes from this worker. */
  readonly isAwaitedOf: (holder: WorkerIncarnation) => boolean;
};

export class CutPressure implements UpdatePressure<{ readonly holder: WorkerIncarnation }> {
  /** Whether a cut is open. Nobody else writes it. */
  isOn = false;
  readonly #arena: Arena;
  readonly #clock: Clock;
  #cut: OpenCut | undefined;
  #relief: Deferred<void> | undefined;

  constructor(arena: Arena, clock: Clock) {
    this.#arena = arena;
    this.#clock = clock;
  }

  begin(cut: OpenCut): void {
    this.#cut = cut;
    this.isOn = true;
  }

  /** What a link with an update of this worker waits for; undefined if nothing (CutPressure.P2). Never rejects. */
  on({ holder }: { readonly holder: WorkerIncarnation }): Promise<void> | undefined {
    const { reserveBytes, stateBytesMax, stateUsedBytes } = this.#arena;
    const cut = this.#cut;
    if (cut === undefined || cut.keptBytes() < reserveBytes * PRESSED_SHARE || stateBytesMax - stateUsedBytes > reserveBytes)
      return undefined;
    // CutPressure.P1
    if (cut.isAwaitedOf(holder)) return sleep(this.#clock, OWNER_WAIT_MS);
    if (this.#relief !== undefined) return this.#relief.promise;
    const relief = new Deferred<void>();
    this.#relief = relief;
    const cancel = this.#clock.after(WAIT_MS, () => this.#relieve()); // CutPressure.P1
    void relief.promise.then(cancel);
    return relief.promise;
  }

  /** The cut is over. */
  end(): void {
    this.#cut = undefined;
    this.isOn = false;
    this.#relieve();
  }

  #relieve(): void {
    this.#relief?.resolve();
    this.#relief = undefined;
  }
}
