// worker-calls — the functions of workers, as the handlers of a server call them: over the connections that the workers
// have opened, which a worker behind a router keeps open too. The call and its bounds are the node's
// (ClusterNode.N3, N4); what a function of a worker promises is in contracts/worker-function.ts.
//
// Invariants:
//   WorkerCalls.C1. A call that names an incarnation reaches that one or fails with NODE_DEAD: what a worker asked for
//       dies with it. Who keeps lists of workers to tell keeps incarnations with them.
//   WorkerCalls.C2. What a server keeps for a worker that does not answer is bounded; from then on calls are refused
//       with QUEUE_FULL, before anything is kept. So a push to many workers does not wait for the slowest: whoever
//       pushes what changes (rows, deltas) keeps what a slow worker has missed as a mark, and sends the newest when
//       `whenRoom` says so.

import { assert } from "../base/assert.ts";
import type { WaitOptions } from "../base/deferred.ts";
import { isWeighbridgeError, showValue, WeighbridgeError } from "../base/errors.ts";
import { checkWaitOptions, WAIT_NAMES } from "../base/known-options.ts";
import type { ClusterNode } from "../cluster/cluster-node.ts";
import { checkWorkerFunction } from "../contracts/described-function.ts";
import type { WorkerCalls as FunctionWorkerCalls, WorkerCallOptions } from "../contracts/function-context.ts";
import type { WorkerFunction } from "../contracts/worker-function.ts";
import { nearestFunction } from "../wire/failure.ts";
import type { Fields, FieldValues } from "../wire/function-schema.ts";
import { idOf } from "../wire/node-id.ts";

const CALL_OPTIONS: readonly string[] = ["incarnation", "priority", ...WAIT_NAMES];

export class WorkerCalls implements FunctionWorkerCalls {
  /** The node of this server, which knows the workers; undefined before there is one. */
  node: Pick<ClusterNode, "roster" | "call" | "whenRoom"> | undefined;

  get ranks(): readonly number[] {
    return this.#node.roster.nodes.filter(({ role, state }) => role === "worker" && state === "alive").map(({ rank }) => rank);
  }

  async call<Q extends Fields, R extends Fields>(
    worker: number,
    fn: WorkerFunction<Q, R>,
    request: FieldValues<Q>,
    options: WorkerCallOptions = {},
  ): Promise<FieldValues<R>> {
    checkWorkerFunction(fn);
    checkWaitOptions(options, CALL_OPTIONS, "the options of a call");
    const node = this.#idOf(worker);
    const { incarnation, ...wait } = options;
    if (incarnation !== undefined) this.#checkIncarnation(worker, incarnation);
    try {
      return await this.#node.call(node, fn, request, wait);
    } catch (thrown) {
      if (!isWeighbridgeError(thrown, "UNKNOWN_FUNCTION")) throw thrown;
      const message = `worker ${worker} serves no function ${JSON.stringify(fn.name)}: ${thrown.message}`;
      throw new WeighbridgeError(thrown.code, `${message}${nearestFunction(fn.name, thrown.message)}`, { cause: thrown });
    }
  }

  async whenRoom(worker: number, wait: WaitOptions = {}): Promise<void> {
    checkWaitOptions(wait);
    await this.#node.whenRoom(this.#idOf(worker), wait);
  }

  #idOf(worker: number): number {
    if (Number.isSafeInteger(worker) && worker >= 0) return idOf("worker", worker);
    throw new WeighbridgeError("BAD_ARGUMENT", `a worker is named by its rank, a whole number from 0 up, not ${showValue(worker)}`);
  }

  /** WorkerCalls.C1 */
  #checkIncarnation(worker: number, incarnation: number): void {
    const entry = this.#node.roster.nodes.find(({ role, rank }) => role === "worker" && rank === worker);
    if (entry === undefined || entry.incarnation === incarnation) return; // what does not exist is refused by the call
    const message = `worker ${worker} has incarnation ${entry.incarnation}: ${incarnation} is gone`;
    throw new WeighbridgeError("NODE_DEAD", message);
  }

  get #node(): Pick<ClusterNode, "roster" | "call" | "whenRoom"> {
    assert(this.node !== undefined, "handlers run on a server that is a node");
    return this.node;
  }
}
