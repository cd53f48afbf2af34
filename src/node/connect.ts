// connect — makes a process a worker with a session, or a guest: the composition root of the modern API. It contains no
// other role.

import { Session } from "../api/session.ts";
import { checkWait, restOf, type WaitOptions } from "../base/deferred.ts";
import { badArgument, showValue, unsupported, WeighbridgeError } from "../base/errors.ts";
import { WAIT_NAMES } from "../base/known-options.ts";
import type { WorkerFunction } from "../contracts/worker-function.ts";
import { loadNodeConfig, orReport } from "./cannot-start.ts";
import { loadConfig } from "./config/config.ts";
import type { NodeConfigOptions, Role } from "./config/node-config.ts";
import { loadWorkerFunctions } from "./function-module.ts";
import { nodeSessions } from "./node-sessions.ts";
import { realClock } from "./real-clock.ts";
import { startWorker } from "./worker-root.ts";

/** A configuration has to be complete; these keys mean nothing to a guest, which the scheduler does not count. */
const GUEST_CONFIG = { role: "worker", serverCount: 1, workerCount: 1, rank: undefined, threads: 1 } as const;

const ADDRESS = /^weighbridge:\/\/([^/?#@]+:\d+)(?:\/([^/?#]*))?$/;

/** How to connect: the configuration, and how long to wait for the cluster, at most as long as `startTimeoutMs`. */
export type ConnectOptions = Omit<NodeConfigOptions, "role"> &
  WaitOptions & {
    /** A guest needs no counts and gets no rank: it reads, pushes to parameters with async updates, calls functions. */
    readonly role?: Role | "guest" | undefined;
  };

/**
 * Joins the cluster that options, environment and file describe, as a worker; with an address,
 * `weighbridge://HOST:PORT` of the scheduler, or `role: "guest"`, as a guest. Throws BAD_CONFIG, DEADLINE, ABORTED, and
 * what starting a node throws; the process has then left the cluster.
 */
export async function connect(to: string | ConnectOptions = {}, options: ConnectOptions = {}): Promise<Session> {
  checkWait(options);
  const given: ConnectOptions = typeof to === "string" ? { ...options, role: "guest", ...guestAddress(to) } : to;
  checkWait(given);
  const { deadlineMs, signal, role, ...configured } = given;
  const isGuest = role === "guest";
  const sources = {
    options: isGuest ? { ...configured, ...GUEST_CONFIG } : { ...configured, role },
    otherOptions: WAIT_NAMES,
    env: process.env,
  };
  const config = isGuest ? loadConfig(sources) : await loadNodeConfig(sources);
  if (config.role !== "worker") {
    throw new WeighbridgeError(
      "BAD_CONFIG",
      `connect() is for workers, and this process is the ${config.role}: launch the script with --worker-only, or set role to worker`,
    );
  }
  if (config.van !== "weighbridge") {
    const message = `parameters are not served over ps-lite's protocol (van ${config.van})`;
    throw unsupported(`${message}: use start() of weighbridge/node and a KVWorker, or start all nodes with --van weighbridge`);
  }
  const rest = restOf({ signal, deadlineMs }, realClock());
  const load = (): readonly WorkerFunction[] | Promise<readonly WorkerFunction[]> =>
    config.functions === undefined || isGuest ? [] : loadWorkerFunctions(config.functions);
  const functions = await orReport(() => config, load);
  const node = await startWorker(config, { signal, deadlineMs, sessions: nodeSessions, functions, isGuest });
  try {
    return await Session.open(node, rest());
  } catch (thrown) {
    await node.close();
    throw thrown;
  }
}

/**
 * The address of a cluster, for guests: `weighbridge://HOST:PORT`, of the scheduler, with others that take over behind
 * commas, and the job's name as the path. Throws BAD_ARGUMENT. The hosts and ports are checked with the configuration.
 */
function guestAddress(address: string): Pick<NodeConfigOptions, "schedulers" | "job"> {
  const [, schedulers, job = ""] = ADDRESS.exec(address) ?? [];
  if (schedulers === undefined) throw badArgument(`the address must be weighbridge://HOST:PORT of a scheduler, not ${showValue(address)}`);
  return job === "" ? { schedulers } : { schedulers, job };
}
