// periodic-checkpoints — takes a checkpoint of the whole job every so often, from a server and without a script. Every
// server of the job has this configuration; the live one with the lowest rank does it.
//
// Invariants:
//   PeriodicCheckpoints.K1. There is one at a time: the time until the next one begins when the last one has ended.
//   PeriodicCheckpoints.K2. A checkpoint that fails is logged, and the next one comes in its time. Training and earlier
//       checkpoints stay as they are.

import { takeCheckpoint } from "../../api/checkpoint.ts";
import type { CancelTimer } from "../../base/clock.ts";
import { isWeighbridgeError, reasonOf } from "../../base/errors.ts";
import type { ServerNode } from "../../server/server-node.ts";
import { serverRanks } from "../../wire/roster.ts";

export type PeriodicCheckpointsOptions = {
  readonly everyMs: number;
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

  #next(): void {
    if (this.#isClosed) return;
    this.#cancelTimer = this.#node.clock.after(this.#options.everyMs, () => {
      this.#taking = this.#take().finally(() => this.#next()); // PeriodicCheckpoints.K1
    });
  }

  async #take(): Promise<void> {
    const node = this.#node;
    const { log, roster, rank, server } = node;
    const alive = roster.nodes.filter(({ role, state }) => role === "server" && state === "alive").map((entry) => entry.rank);
    const hasState = server.parameters.all.length > 0 || [...server.parameters.sums.all].some(([, store]) => store.keyCount > 0);
    if (rank !== Math.min(...alive) || !hasState) return;
    const { keep } = this.#options;
    try {
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
