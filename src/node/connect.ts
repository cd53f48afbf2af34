// connect — makes a process a worker with a session: the composition root of the modern API. It contains no other role.

import { Session } from "../api/session.ts";
import { checkWait, type WaitOptions } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { WAIT_NAMES } from "../base/known-options.ts";
import type { WorkerFunction } from "../contracts/worker-function.ts";
import { loadNodeConfig, orReport } from "./cannot-start.ts";
import type { NodeConfigOptions } from "./config/node-config.ts";
import { loadWorkerFunctions } from "./function-module.ts";
import { nodeSessions } from "./node-sessions.ts";
import { realClock, restOf } from "./real-clock.ts";
import { startWorker } from "./worker-root.ts";

/** How to connect: the configuration, and how long to wait for the cluster, at most as long as `startTimeoutMs`. */
export type ConnectOptions = NodeConfigOptions & WaitOptions;

/**
 * Joins the cluster that options, environment and file describe, as a worker. Throws BAD_CONFIG, DEADLINE, ABORTED, and
 * what starting a node throws; the process has then left the cluster.
 */
export async function connect(options: ConnectOptions = {}): Promise<Session> {
  checkWait(options);
  const { deadlineMs, signal, ...configured } = options;
  const config = await loadNodeConfig({ options: configured, otherOptions: WAIT_NAMES, env: process.env });
  if (config.role !== "worker") {
    throw new WeighbridgeError(
      "BAD_CONFIG",
      `connect() is for workers, and this process is the ${config.role}: launch the script with --worker-only, or set role to worker`,
    );
  }
  if (config.van !== "weighbridge") {
    const message = `parameters are not served over ps-lite's protocol (van ${config.van})`;
    throw new WeighbridgeError(
      "UNSUPPORTED",
      `${message}: use start() of weighbridge/node and a KVWorker, or start all nodes with --van weighbridge`,
    );
  }
  const restMs = restOf(deadlineMs, realClock());
  const load = (): readonly WorkerFunction[] | Promise<readonly WorkerFunction[]> =>
    config.functions === undefined ? [] : loadWorkerFunctions(config.functions);
  const functions = await orReport(() => config, load);
  const node = await startWorker(config, { signal, deadlineMs, sessions: nodeSessions, functions });
  try {
    return await Session.open(node, { signal, deadlineMs: restMs() });
  } catch (thrown) {
    await node.close();
    throw thrown;
  }
}
