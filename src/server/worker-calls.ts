// worker-calls — how the handlers of a server call functions of workers: over the connections that the workers have
// opened, which also works for a worker behind a router. The node makes and bounds the calls (ClusterNode.N3,
// ClusterNode.N4); contracts/worker-function.ts has what a function of a worker promises.
//
// Invariants:
//   WorkerCalls.C1. A call that names an incarnation reaches that one or fails with NODE_DEAD: the requests of a worker
//       die with it. Handlers that keep lists of workers keep their incarnations, too.
//   WorkerCalls.C2. What a server keeps for a worker that does not answer is bounded; beyond that calls are refused
//       with QUEUE_FULL, before anything is kept. So a push to many workers does not wait for the slowest: its handler
//       marks what a slow worker has missed (rows, deltas), and sends the newest after `whenRoom`.

import { assert } from "../base/assert.ts";
import type { WaitOptions } from "../base/deferred.ts";
import { badArgument, isWeighbridgeError, restated, showValue, WeighbridgeError } from "../base/errors.ts";
import { checkWaitOptions, WAIT_NAMES } from "../base/known-options.ts";
import type { ClusterNode } from "../cluster/cluster-node.ts";
import type { WorkerCalls as FunctionWorkerCalls, WorkerCallOptions } from "../contracts/function-context.ts";
import { checkWorkerFunction } from "../contracts/known-function.ts";
import type { WorkerFunction } from "../contracts/worker-function.ts";
import { failedUpdate } from "../peer/unheard-update.ts";
import { nearestFunction } from "../wire/failure.ts";
import type { Fields, FieldValues } from "../wire/function-schema.ts";
import { idOf } from "../wire/node-id.ts";

const CALL_OPTIONS: readonly string[] = ["incarnation", "priority", ...WAIT_NAMES];

export class WorkerCalls implements FunctionWorkerCalls {
  /** The node of this server, which knows the workers; undefined before it has started. */
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
    try {
      checkWaitOptions(options, CALL_OPTIONS, "the options of a call");
      const node = this.#idOf(worker);
      const { incarnation, ...wait } = options;
      if (incarnation !== undefined) this.#checkIncarnation(worker, incarnation);
      return await this.#node.call(node, fn, request, wait);
    } catch (thrown) {
      const told = isWeighbridgeError(thrown, "UNKNOWN_FUNCTION") ? missingFailure(thrown, worker, fn) : thrown;
      throw fn.isUpdate ? failedUpdate(told) : told;
    }
  }

  async whenRoom(worker: number, options: WaitOptions = {}): Promise<void> {
    checkWaitOptions(options);
    await this.#node.whenRoom(this.#idOf(worker), options);
  }

  #idOf(worker: number): number {
    if (Number.isSafeInteger(worker) && worker >= 0) return idOf("worker", worker);
    throw badArgument(`a worker is named by its rank, a whole number from 0 up, not ${showValue(worker)}`);
  }

  /** WorkerCalls.C1 */
  #checkIncarnation(worker: number, incarnation: number): void {
    const entry = this.#node.roster.nodes.find(({ role, rank }) => role === "worker" && rank === worker);
    if (entry === undefined || entry.incarnation === incarnation) return; // the call refuses an unknown worker
    const message = `worker ${worker} has incarnation ${entry.incarnation}: ${incarnation} is gone`;
    throw new WeighbridgeError("NODE_DEAD", message);
  }

  get #node(): Pick<ClusterNode, "roster" | "call" | "whenRoom"> {
    assert(this.node !== undefined, "handlers run on a server that is a node");
    return this.node;
  }
}

function missingFailure(error: WeighbridgeError, worker: number, { name }: WorkerFunction): WeighbridgeError {
  const { message } = error;
  return restated(error, `worker ${worker} serves no function ${JSON.stringify(name)}: ${message}${nearestFunction(name, message)}`);
}
