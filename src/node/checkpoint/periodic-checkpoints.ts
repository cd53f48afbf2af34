// periodic-checkpoints — takes a checkpoint of the whole job every so often, from a server and without a script. Every
// server of the job has this configuration; the live one with the lowest rank does it, and no standby. "Often" is a
// time, or a number of steps: clocks that all workers have finished.
//
// Invariants:
//   PeriodicCheckpoints.K1. There is one at a time: the time, or the steps, until the next one begin when the last one
//       has ended.
//   PeriodicCheckpoints.K2. A checkpoint that fails is logged, and the next one comes in its time. Training and earlier
//       checkpoints stay as they are.

import { takeCheckpoint } from "../../api/checkpoint.ts";
import type { CancelTimer } from "../../base/clock.ts";
import { isWeighbridgeError, reasonOf } from "../../base/errors.ts";
import { checkpointSave } from "../../contracts/checkpoints.ts";
import type { ServerNode } from "../../server/server-node.ts";
import { roleOf } from "../../wire/node-id.ts";
import { serverRanks } from "../../wire/roster.ts";
import type { Interval } from "../config/interval.ts";

/** How often the clock is looked at. */
const LOOK_EVERY_MS = 200;

export type PeriodicCheckpointsOptions = Interval & {
  /** How many stay; undefined: all. */
  readonly keep?: number | undefined;
};

export class PeriodicCheckpoints {
  readonly #node: ServerNode;
  readonly #options: PeriodicCheckpointsOptions;
  #cancelTimer: CancelTimer = () => {};
  #isClosed = false;
  /** The one that is being taken; never rejects. */
  #taking: Promise<void> = Promise.resolve();

  /** Begins once the node has started. */
  constructor(node: ServerNode, options: PeriodicCheckpointsOptions) {
    this.#node = node;
    this.#options = options;
    this.#next();
  }

  /** Waits for one that is being taken. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelTimer();
    await this.#taking;
  }

  #next(afterClock: number = this.#clock): void {
    if (this.#isClosed) return;
    const options = this.#options;
    this.#cancelTimer = this.#node.clock.after("everyMs" in options ? options.everyMs : LOOK_EVERY_MS, () => {
      if ("everySteps" in options && this.#clock < afterClock + options.everySteps) this.#next(afterClock);
      else this.#taking = this.#take().finally(() => this.#next()); // PeriodicCheckpoints.K1
    });
  }

  /** Of the slowest worker. */
  get #clock(): number {
    return this.#node.server.parameters.pacer.clockMin;
  }

  async #take(): Promise<void> {
    const node = this.#node;
    const { log, roster, rank } = node;
    if (roleOf(node.id) !== "server" || rank !== lowestServer(node)) return;
    const { keep } = this.#options;
    try {
      if (!(await holdsState(node))) return;
      const servers = { servers: serverRanks(roster), call: node.callServer.bind(node) };
      const { path, clock, warning } = await takeCheckpoint(servers, { createdAt: new Date().toISOString(), keep });
      log.info("took a checkpoint", { path, clock });
      if (warning !== undefined) log.warn("after the checkpoint", { reason: warning });
    } catch (thrown) {
      // PeriodicCheckpoints.K2. Somebody else takes one, or the job is over.
      const isExpected = isWeighbridgeError(thrown, "QUEUE_FULL") || node.peer.isLeaving;
      log[isExpected ? "debug" : "warn"]("no checkpoint was taken", { reason: reasonOf(thrown) });
    }
  }
}

/** The lowest rank of a server that lives: it takes the checkpoints of the job. */
export function lowestServer({ roster }: Pick<ServerNode, "roster">): number | undefined {
  const alive = roster.nodes.filter(({ role, state }) => role === "server" && state === "alive");
  return alive.length === 0 ? undefined : Math.min(...alive.map(({ rank }) => rank));
}

/**
 * Whether any server holds parameters or sums. This one may have been restarted, with nothing: so it asks the others.
 * One that does not answer has nothing that could be saved.
 */
export async function holdsState(node: Pick<ServerNode, "server" | "roster" | "rank" | "callServer">): Promise<boolean> {
  const { server, roster, rank: own } = node;
  const { all, sums } = server.parameters;
  const holdsSums = [...sums.all].some(([, store]) => store.keyCount > 0);
  if (all.length > 0 || holdsSums || roster.nodes.some(({ sumsIncarnation = 0 }) => sumsIncarnation > 0)) return true;
  const others = roster.nodes.filter(({ role, rank, state }) => role === "server" && state === "alive" && rank !== own);
  const surveys = await Promise.allSettled(others.map(({ rank }) => node.callServer(rank, checkpointSave.survey, {})));
  return surveys.some((survey) => survey.status === "fulfilled" && survey.value.names.length > 0);
}
