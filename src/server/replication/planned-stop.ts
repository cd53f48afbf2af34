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
};

export type PlannedStopOptions = PlannedStopFiles & {
  readonly log: Log;
  readonly replica: Replica;
  readonly plugIns: readonly PlugInModule[];
  /** What beside plug-ins keeps the state from being saved now; "": nothing. */
  readonly problem: () => string;
  /** Resolves when no parts come or go, or that has taken too long: until then the state cannot be saved. */
  readonly settled: () => Promise<void>;
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
   * Repeats what a process before has left. Throws ABORTED if its stop was not finished, and what DurableLog.open
   * throws.
   */
  async open(): Promise<void> {
    const { found, replica } = this.#options;
    if (found !== undefined) await replica.openStopped(found);
  }

  /** The state that was found is served from now on. */
  async begun(): Promise<void> {
    await this.#options.found?.remove();
  }

  /**
   * Leaves the state of this server for the next process. Never throws: what went wrong is logged, and nothing is left.
   */
  async save(identity: ServerIdentity, rank: number): Promise<void> {
    const { log, replica, logOf, settled } = this.#options;
    if (this.#saved !== undefined || !hasWorkers(identity.roster)) return;
    let durable: DurableLog | undefined;
    try {
      await settled();
      this.#checkRepeatable();
      durable = await logOf(rank);
      await replica.leave(durable, identity, { settled, check: () => this.#checkRepeatable() });
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
