// snapshot-series — the snapshots of a job's tables, one every so many clocks, which one process of the job takes. The
// servers write one at a time. A clock at which another one is due waits until that one is written.
//
//   clocks ──► due: requested at once ──────────────► taken, or a warning says why not
//                └─ while another is taken: held ──┘ └─ for longer than HOLD_MS_MAX: left out, with a warning
//
// Invariants:
//   SnapshotSeries.S1. Every due clock is taken as an exact cut, or a warning names it.
//   SnapshotSeries.S2. The process ends no due clock before its cut was requested: servers then make it before anything
//       of a later clock (Checkpoint.C2).
//   SnapshotSeries.S3. For one snapshot clocks are held for HOLD_MS_MAX at most, and for one that failed no longer.
//       Clocks that are due after that, while it lasts, are left out.

import type { Session } from "../../api/session.ts";
import type { CancelTimer } from "../../base/clock.ts";
import { sleep } from "../../base/deferred.ts";
import { isWeighbridgeError, reasonOf } from "../../base/errors.ts";
import type { ClockGate } from "../../worker/tables/process-tables.ts";

const HOLD_MS_MAX = 60_000;
/** A request that fails at once would otherwise be repeated without end. */
const PAUSE_MS = 1000;

export class SnapshotSeries implements ClockGate {
  /** Called when a clock that was held may end. */
  onOpen: () => void = () => {};
  readonly #session: Pick<Session, "clocks" | "log" | "time" | "checkpoint">;
  readonly #everyClocks: number;
  /** The next clock whose cut was not requested. */
  #due: number;
  /** The clock of the last one that was requested. */
  #taking = 0;
  #isOver = false;
  #cancelHold: CancelTimer | undefined;
  /** Why due clocks are left out now (SnapshotSeries.S3). */
  #leaveOutFor: string | undefined;

  constructor(session: Pick<Session, "clocks" | "log" | "time" | "checkpoint">, everyClocks: number) {
    this.#session = session;
    this.#everyClocks = everyClocks;
    this.#due = everyClocks * (1 + Math.floor(session.clocks / everyClocks));
  }

  /** SnapshotSeries.S2 */
  mayEnd(clock: number): boolean {
    while (clock >= this.#due && !this.#isOver) {
      if (this.#leaveOutFor === undefined) {
        this.#cancelHold ??= this.#session.time.after(HOLD_MS_MAX, () => this.#tooLong());
        return false;
      }
      this.#leaveOut(this.#leaveOutFor);
    }
    return true;
  }

  /**
   * Takes one after the other, each requested before its clock comes, until `close` is called, the session has closed,
   * or servers have no checkpoint directory.
   */
  async run(): Promise<void> {
    const { log, time } = this.#session;
    while (!this.#isOver) {
      while (this.#due < this.#session.clocks) this.#leaveOut(`this process stands at clock ${this.#session.clocks} already`);
      const clock = this.#due;
      const taken = this.#session.checkpoint({ clock, step: clock }).saved;
      this.#due += this.#everyClocks;
      this.#taking = clock;
      this.#open(undefined);
      try {
        await taken;
      } catch (thrown) {
        if (this.#isOver || isWeighbridgeError(thrown, "CLOSED")) break;
        log.warn("a snapshot was not taken", { clock, reason: reasonOf(thrown) });
        if (isWeighbridgeError(thrown, "UNSUPPORTED")) break;
        this.#open(`the one at clock ${clock} was not taken`);
        await sleep(time, PAUSE_MS);
      } finally {
        this.#cancelHold?.();
        this.#cancelHold = undefined;
      }
    }
    this.close();
  }

  /** No other one is taken; clocks go on. */
  close(): void {
    this.#isOver = true;
    this.#open(undefined);
  }

  #open(leaveOutFor: string | undefined): void {
    this.#leaveOutFor = leaveOutFor;
    this.onOpen();
  }

  /** SnapshotSeries.S3 */
  #tooLong(): void {
    this.#open(`clocks have waited ${HOLD_MS_MAX} ms for the one at clock ${this.#taking}, which is still being taken`);
  }

  /** SnapshotSeries.S1 */
  #leaveOut(reason: string): void {
    this.#session.log.warn("a snapshot was left out", { clock: this.#due, reason });
    this.#due += this.#everyClocks;
  }
}
