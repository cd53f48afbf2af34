// planned-stop — a server that has no standby, and is stopped in order to be started again, replicated or not: it
// leaves its state as a log, which the next process of its rank repeats (docs/decisions/0070). Not where the log lies:
// node/durable/.
//
//   SIGTERM ──► IDENTITY, FILL … FILLED, while training goes on ──► LEAVE, returns ──► the log is closed
//   start ──► the log is repeated ──► the rank, in the next incarnation, which continues ──► the log is removed
//
// Invariants:
//   PlannedStop.P1. The log has all that anybody was told when the scheduler hears that the server returns (Fill.F4);
//       from then on nothing is told that it does not have.
//   PlannedStop.P2. A log is gone on with once, and only in the run it belongs to: the scheduler takes it for the last
//       incarnation of the rank alone (Chains.comebackRefusal).
//   PlannedStop.P3. A server with something that could not be repeated leaves nothing: then calls fail at once, as
//       without a directory.
//   PlannedStop.P4. A server that is stopped again while it comes back loses nothing: before the scheduler has let it
//       go on, what was left stays; afterwards the server begins, and leaves its state anew.
//   PlannedStop.P5. Of two copies of a rank that are stopped, in whichever order and however close to each other, one
//       ends up as the head without a standby, with all that was acknowledged, and leaves that. The scheduler orders
//       them (Chains.C4): no copy ends before it has heard that the other one has what it has, or has left it itself.
//       While the scheduler cannot be reached nobody orders them, and a copy with a standby leaves nothing.
//   PlannedStop.P6. While parts come or go a server that is stopped waits until they are where they belong. It takes
//       part in no other change from then on (PREPARE is refused), so none comes while its state is written.
//   PlannedStop.P7. A server that has saved its state serves until the scheduler has heard that it returns, also from a
//       scheduler that was away, for SCHEDULER_BACK_MS at most: workers that nobody tells take it for dead.
//   PlannedStop.P8. A stop that was cut off, before its log had the whole state, keeps no server from starting: that
//       begins without it, with a checkpoint if it is to have one.

import { reasonOf, unsupported } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { PlugInModule } from "../../store/plug-ins.ts";
import type { RosterView } from "../../wire/roster.ts";
import type { DurableLog, ServerIdentity } from "./log-sink.ts";
import { checkRepeatable } from "./repeated-function.ts";
import type { Replica } from "./replica.ts";

export type PlannedStopFiles = {
  /** Where the server of this rank leaves its state. Nothing is there yet. */
  readonly logOf: (rank: number) => Promise<DurableLog>;
  /** What a process before has left for this one. */
  readonly found?: DurableLog | undefined;
  /** Keeps that for people, once it is closed, with a warning. */
  readonly setAside?: (() => Promise<void>) | undefined;
};

export type PlannedStopOptions = PlannedStopFiles & {
  readonly log: Log;
  readonly replica: Replica;
  readonly plugIns: readonly PlugInModule[];
  /** Whether the job goes on when no worker is left. */
  readonly serves: () => boolean;
  /** What beside plug-ins keeps the state from being saved now; "": nothing. */
  readonly problem: () => string;
};

export class PlannedStop {
  readonly #options: PlannedStopOptions;
  #saved: DurableLog | undefined;

  constructor(options: PlannedStopOptions) {
    this.#options = options;
  }

  /** Whether the state was left for another process. */
  get isSaved(): boolean {
    return this.#saved !== undefined;
  }

  /**
   * Repeats what a process before has left, or sets it aside (PlannedStop.P8). Throws what DurableLog.open throws, and
   * what `setAside` does.
   */
  async open(): Promise<void> {
    const { found, replica, setAside } = this.#options;
    if (found === undefined || (await replica.openStopped(found))) return;
    await found.close();
    await setAside?.();
  }

  /** The state that was found is served from now on. */
  async begun(): Promise<void> {
    await this.#options.found?.remove();
  }

  /**
   * Leaves the state of this server for the next process. Never throws: what went wrong is logged, and nothing is left.
   */
  async save(identity: ServerIdentity, rank: number): Promise<void> {
    const { log, replica, logOf, serves } = this.#options;
    if (this.#saved !== undefined || !(serves() || hasWorkers(identity.roster))) return;
    let durable: DurableLog | undefined;
    try {
      this.#checkRepeatable();
      durable = await logOf(rank);
      await replica.leave(durable, identity, () => this.#checkRepeatable());
      this.#saved = durable; // PlannedStop.P1
      log.info("the state is saved for the next process of this rank", { entries: replica.log.position });
    } catch (thrown) {
      log.warn("the state could not be saved, and is lost with this process", { reason: reasonOf(thrown) });
      await durable?.remove();
    }
  }

  /** Nothing more is sent to any node. */
  async close(): Promise<void> {
    await this.#saved?.close();
    await this.#options.found?.close();
  }

  /** PlannedStop.P3 */
  #checkRepeatable(): void {
    const { plugIns, problem } = this.#options;
    const why = problem();
    if (why !== "") throw unsupported(why);
    checkRepeatable(plugIns);
  }
}

function hasWorkers({ nodes }: RosterView): boolean {
  return nodes.some(({ role, state }) => role === "worker" && state !== "left");
}
