// connect — makes a process a worker with a session, or a guest: the composition root of the modern API. It contains no
// other role.
//
// Invariants:
//   Connect.C1. A call that contradicts itself, or the environment where that would silently decide, is refused before
//       anything is sent: two sources for the address, a role that connect() does not join in, an address without a
//       role in a process that has one.
//   Connect.C2. An address is enough for a worker, too: its scheduler says how many servers and workers the job has,
//       unless options do. What environment and file say of counts may be about another cluster.
//   Connect.C3. An option that only other roles read is refused by its name, and so is a guest's that only workers
//       read. In the environment and in a file it is not: the nodes of a job share those.

import { Session } from "../api/session.ts";
import { checkWait, restOf, type WaitOptions } from "../base/deferred.ts";
import { badArgument, showValue, unsupported, WeighbridgeError } from "../base/errors.ts";
import { WAIT_NAMES } from "../base/known-options.ts";
import type { Logger } from "../base/log.ts";
import { didYouMean } from "../base/nearest-name.ts";
import type { WorkerFunction } from "../contracts/worker-function.ts";
import type { JobCounts } from "./ask-counts.ts";
import { loadNodeConfig, orReport } from "./cannot-start.ts";
import { type ConfigSources, loadConfig } from "./config/config.ts";
import { roleInEnvironment } from "./config/config-environment.ts";
import { KEY_NAMES } from "./config/config-keys.ts";
import type { NodeConfigOptions } from "./config/node-config.ts";
import { ADDRESS_FORM, readSchedulerUrl } from "./config/scheduler-url.ts";
import { NONE } from "./config/value-kind.ts";
import { loadWorkerFunctions } from "./function-module.ts";
import { keepProcess } from "./keep-process.ts";
import { checkLogger, defaultLevelOf, nodeLog } from "./logger-log.ts";
import { nodeSessions } from "./node-sessions.ts";
import { realClock } from "./real-clock.ts";
import { startWorker } from "./worker-root.ts";

/** As in a file: no value, whatever weaker sources say. */
const UNSET = NONE as unknown as undefined;
/** A configuration has to be complete; these keys mean nothing to a guest, which the scheduler does not count. */
const GUEST_CONFIG = { role: "worker", serverCount: 1, workerCount: 1, workerCountMax: UNSET, rank: UNSET, threads: 1 } as const;

/** Options of workers alone (Connect.C3): the scheduler does not count guests, and they serve nothing. */
const OF_WORKERS = ["rank", "serverCount", "workerCount", "workerCountMax", "functions"] as const;

/** Until the scheduler is asked. */
const STAND_INS: JobCounts = { serverCount: 1, workerCount: 1 };

const ROLES: readonly string[] = ["worker", "guest"];
/** Options that name the scheduler, as an address does. */
const NAMED_BY_ADDRESS = ["schedulers", "schedulerHost", "schedulerPort"] as const;

const OTHER_OPTIONS: readonly string[] = [...WAIT_NAMES, "logger"];

/**
 * How to connect: what a worker or a guest reads of the configuration, and how long to wait for the cluster, at most as
 * long as `startTimeoutMs`. What is left out comes from the environment and the file.
 */
export interface ConnectOptions
  extends Pick<
      NodeConfigOptions,
      | "serverCount"
      | "workerCount"
      | "workerCountMax"
      | "job"
      | "schedulers"
      | "schedulerHost"
      | "schedulerPort"
      | "host"
      | "advertiseHost"
      | "listenPort"
      | "rank"
      | "transport"
      | "van"
      | "socketDir"
      | "startTimeoutMs"
      | "requestTimeoutMs"
      | "linkTimeoutMs"
      | "resendTimeoutMs"
      | "faults"
      | "outboxMessagesMax"
      | "outboxBytesMax"
      | "wakefulLoop"
      | "sharedMemory"
      | "functions"
      | "logLevel"
      | "nodeId"
      | "config"
      | "section"
    >,
    WaitOptions {
  /**
   * A worker takes part in clocks, barriers and the end of the job. A guest is not counted and gets no rank: it
   * reads, pushes to parameters with async updates, and calls functions. Defaults to "guest" with an address; without
   * one the environment decides.
   */
  readonly role?: "worker" | "guest" | undefined;
  /**
   * Gets all log lines of this session, in place of standard error: pino's, `console`, or an object with the same
   * four methods. `logLevel` says from which level on: "info" by default, and everything for a logger with a `level`
   * of its own.
   */
  readonly logger?: Logger | undefined;
}

type ConnectKey = Exclude<keyof ConnectOptions, "role" | "logger" | keyof WaitOptions>;
/** All of them: the type says so. */
const CONNECT_KEYS: Readonly<Record<ConnectKey, true>> = {
  ...{ serverCount: true, workerCount: true, workerCountMax: true, job: true, rank: true, nodeId: true, functions: true },
  ...{ schedulers: true, schedulerHost: true, schedulerPort: true, host: true, advertiseHost: true, listenPort: true },
  ...{ transport: true, van: true, socketDir: true, faults: true, wakefulLoop: true, logLevel: true, config: true, section: true },
  ...{ startTimeoutMs: true, requestTimeoutMs: true, linkTimeoutMs: true, resendTimeoutMs: true },
  ...{ outboxMessagesMax: true, outboxBytesMax: true, sharedMemory: true },
};
/** Keys that other roles read (Connect.C3). */
const OF_OTHER_ROLES: readonly string[] = KEY_NAMES.map((name) => name.split(".")[0] as string).filter(
  (name) => name !== "role" && !Object.hasOwn(CONNECT_KEYS, name),
);

/**
 * Joins the cluster that options, environment and file describe. Throws BAD_ARGUMENT and BAD_CONFIG before anything is
 * sent, DEADLINE, ABORTED, and what starting a node throws; the process has then left the cluster.
 *
 * @example
 * // A worker that a launcher has started, or whose environment describes the cluster:
 * const session = await connect();
 *
 * @example
 * // The same with options, which win over the environment:
 * const session = await connect({ role: "worker", serverCount: 2, workerCount: 4, schedulerHost: "ps.example" });
 */
export async function connect(options?: ConnectOptions): Promise<Session>;
/**
 * Joins the cluster at an address, `weighbridge://HOST:PORT` of its scheduler: as a guest, or as a worker with
 * `role: "worker"`. The port is 9700 if left out. Commas separate several schedulers of the job, and a path names the
 * job, which another job refuses. The scheduler tells a worker the counts of servers and workers unless
 * options give both.
 *
 * @example
 * // A guest, such as a service or a dashboard:
 * const session = await connect("weighbridge://ps.example");
 *
 * @example
 * // A worker of a job that has three schedulers, and the name "ads":
 * const session = await connect("weighbridge://a,b,c:9701/ads", { role: "worker" });
 */
export async function connect(address: string, options?: ConnectOptions): Promise<Session>;
export async function connect(...given: readonly unknown[]): Promise<Session> {
  const options = checkedOptions(given);
  const other = OF_OTHER_ROLES.find((name) => (options as Readonly<Record<string, unknown>>)[name] !== undefined);
  if (other !== undefined)
    throw badArgument(`the option ${other} is not for workers or guests: give it to the scheduler or the servers, or remove it`);
  const ofWorkers = options.role === "guest" ? OF_WORKERS.find((name) => options[name] !== undefined) : undefined;
  if (ofWorkers !== undefined)
    throw badArgument(`the option ${ofWorkers} means nothing to a guest: remove it, or join with role: "worker"`);
  return await join(options, typeof given[0] === "string");
}

/**
 * As `connect` without an address, for scripts that are one for all roles: the options may name what other roles read.
 */
export async function connectWorker(options: NodeConfigOptions): Promise<Session> {
  return await join(checkedOptions([options]), false);
}

async function join({ timeoutMs, signal, role, logger, ...configured }: ConnectOptions, hasAddress: boolean): Promise<Session> {
  const rest = restOf({ signal, timeoutMs }, realClock());
  const isGuest = role === "guest";
  const warnings: string[] = [];
  const defaults: NodeConfigOptions = logger === undefined ? {} : { logLevel: defaultLevelOf(logger) };
  const unasked: ConfigSources = {
    options: isGuest ? { ...configured, ...GUEST_CONFIG } : { ...configured, role },
    otherOptions: OTHER_OPTIONS,
    env: process.env,
    defaults,
    ...(logger === undefined ? {} : { warn: (text) => void warnings.push(text) }),
  };
  const { serverCount, workerCount, workerCountMax = UNSET } = configured;
  const isTold = !hasAddress || isGuest || (serverCount !== undefined && workerCount !== undefined);
  const withCounts = (counts: JobCounts): ConfigSources => {
    const all = { serverCount: serverCount ?? counts.serverCount, workerCount: workerCount ?? counts.workerCount, workerCountMax };
    return { ...unasked, options: { ...unasked.options, ...all } };
  };
  const sources = isTold ? unasked : withCounts(await askedCounts(withCounts(STAND_INS), logger, rest()));
  const config = isGuest ? loadConfig(sources) : await loadNodeConfig(sources);
  if (logger !== undefined) {
    const log = nodeLog(logger, { level: config.logLevel, who: () => role ?? config.role });
    for (const warning of new Set(warnings)) log.warn(warning);
  }
  if (config.role !== "worker") {
    throw new WeighbridgeError(
      "BAD_CONFIG",
      `connect() joins as a worker or a guest, and this process is the ${config.role}: launch the script without --all-roles, or write connect({ role: "worker" }) or connect({ role: "guest" })`,
    );
  }
  if (config.van !== "weighbridge") {
    const message = `parameters are not served over ps-lite's protocol (van ${config.van})`;
    throw unsupported(`${message}: use start() of weighbridge/node and a KVWorker, or start all nodes with --van weighbridge`);
  }
  const load = (): readonly WorkerFunction[] | Promise<readonly WorkerFunction[]> =>
    config.functions === undefined || isGuest ? [] : loadWorkerFunctions(config.functions);
  const functions = await orReport(() => config, load);
  const node = await startWorker(config, { ...rest(), sessions: nodeSessions, functions, isGuest, keepProcess, logger });
  try {
    return await Session.open(node, rest());
  } catch (thrown) {
    await node.close();
    throw thrown;
  }
}

/** What the scheduler says (Connect.C2); these sources have counts that stand in for them. */
async function askedCounts(sources: ConfigSources, logger: Logger | undefined, wait: WaitOptions): Promise<JobCounts> {
  const config = loadConfig({ ...sources, isAnyRankAllowed: true, warn: () => {} });
  const { askCounts } = await import("./ask-counts.ts");
  return await askCounts(config, nodeLog(logger, { level: config.logLevel, who: () => "worker" }), wait);
}

/** The options of a call of connect(), with what its address says. Throws BAD_ARGUMENT (Connect.C1). */
function checkedOptions(given: readonly unknown[]): ConnectOptions {
  const [first] = given;
  const hasAddress = typeof first === "string";
  const [options = {}, ...more] = (hasAddress ? given.slice(1) : given) as [ConnectOptions?, ...unknown[]];
  if (more.some((one) => one !== undefined))
    throw badArgument(
      hasAddress
        ? `connect(address, options) takes two arguments, got ${showValue(more[0])} as a third`
        : `connect(options) takes one object, got ${showValue(more[0])} as a second: put all options into the first, or give an address first`,
    );
  const isObject = typeof options === "object" && options !== null && !Array.isArray(options) && !(options instanceof URL);
  if (!isObject)
    throw badArgument(`connect() takes an address as text (${ADDRESS_FORM}), options as an object, or both, got ${showValue(options)}`);
  checkWait(options);
  checkRole(options.role);
  checkLogger(options.logger);
  return hasAddress ? { ...options, ...ofAddress(first, options) } : options;
}

function checkRole(role: unknown): void {
  if (role === undefined || ROLES.includes(role as string)) return;
  const start = role === "server" || role === "scheduler" ? `; start a ${role} with: npx weighbridge ${role}` : didYouMean(role, ROLES);
  throw badArgument(`connect() joins with role "worker" or "guest", not ${showValue(role)}${start}`);
}

/** What an address and the options beside it mean. Throws BAD_ARGUMENT (Connect.C1). */
function ofAddress(address: string, options: ConnectOptions): ConnectOptions {
  const found = readSchedulerUrl(address);
  const twice = NAMED_BY_ADDRESS.find((name) => options[name] !== undefined);
  if (twice !== undefined)
    throw badArgument(`the address ${showValue(address)} names the scheduler, and so does the option ${twice}: leave out one of them`);
  if (found.job !== undefined && options.job !== undefined)
    throw badArgument(`the address ${showValue(address)} names the job, and so does the option job: leave out one of them`);
  if (options.transport !== undefined && options.transport !== "tcp")
    throw badArgument(`an address leads over TCP, and transport is ${showValue(options.transport)}: leave out one of them`);
  const role = options.role ?? guestUnlessNamed(address);
  return { ...found, transport: "tcp", role };
}

/** An address alone joins as a guest. A process that has a role is asked which one it means (Connect.C1). */
function guestUnlessNamed(address: string): "guest" {
  const named = roleInEnvironment(process.env);
  if (named === undefined) return "guest";
  const { variable, role } = named;
  const forms = [
    ...[`connect(${showValue(address)}, { role: "guest" })`, `connect(${showValue(address)}, { role: "worker" })`],
    "connect() for the cluster of the environment",
  ];
  const what = `an address alone joins as a guest, and ${variable} in the environment makes this process a ${role}`;
  throw badArgument(`${what}: write ${forms.join(", or ")}`);
}
