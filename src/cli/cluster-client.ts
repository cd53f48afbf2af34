// cluster-client — reaches a running cluster from a command that is not a node: the scheduler reports its status and
// relays calls to the servers. Meanwhile the command is listed there as a tool (docs/decisions/0069).

import type { ServerCalls } from "../api/checkpoint.ts";
import { joinBytes } from "../base/bytes.ts";
import type { CancelTimer, Clock } from "../base/clock.ts";
import { Deferred } from "../base/deferred.ts";
import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { SILENT_LOG } from "../base/log.ts";
import { wrongScheduler } from "../cluster/start-failure.ts";
import { STATUS } from "../contracts/control.ts";
import { relayCall, toolHere } from "../contracts/tools.ts";
import { loadConfig, loadOrigins } from "../node/config/config.ts";
import { flagOf } from "../node/config/config-key.ts";
import { nodeLabel, schedulerAddresses } from "../node/config/node-addresses.ts";
import type { NodeConfig } from "../node/config/node-config.ts";
import { readSchedulerUrl } from "../node/config/scheduler-url.ts";
import { isSameJob, type LastJob, readLastJob } from "../node/last-job.ts";
import { outputAddress } from "../node/output-name.ts";
import { realClock } from "../node/real-clock.ts";
import { SocketTransport } from "../node/transport/socket-transport.ts";
import { callFunction, callJson } from "../peer/call-function.ts";
import type { Channel } from "../peer/channel.ts";
import { Peer } from "../peer/peer.ts";
import { PlainReadBuffers } from "../peer/request-assembly.ts";
import type { Address, Transport } from "../transport/transport.ts";
import type { StatusReply } from "../wire/control.ts";
import { jobNameOf } from "../wire/hello.ts";
import { SCHEDULER_ID } from "../wire/node-id.ts";
import { serverRanks } from "../wire/roster.ts";
import { ADDRESS_KEYS } from "./cluster-flags.ts";
import { configFlags, type Flags, type Invocation } from "./command-parts.ts";
import { printNotice } from "./notices.ts";
import { countText, durationText } from "./terminal-text.ts";

/** How a command knows its job: the user named it, or it was the last one started from this directory, or neither. */
export type TargetKind = "named" | "directory" | "default";

/** Where to look for a job. */
export type Target = {
  readonly kind: TargetKind;
  /** Where its scheduler may be. */
  readonly addresses: readonly Address[];
  /** Which job has to answer there; left out: any. */
  readonly last?: LastJob | undefined;
};

export type ClusterRequest = {
  /** What this command is called where tools are listed. */
  readonly command: string;
  /** One after the other; what is wrong with one that is not the last is printed. */
  readonly targets: readonly Target[];
  /** How long to look for the scheduler. */
  readonly findMs: number;
  /** For each request; a checkpoint may take long. */
  readonly timeoutMs: number | undefined;
  readonly transport: Transport;
  readonly clock: Clock;
};

const FIND_MS = 3000;
/** After a scheduler did not answer, which may have been restarted. */
const LIST_AGAIN_MS = 1000;
/** A configuration has to be complete; these keys mean nothing to a process that is not a node. */
const STAND_INS = { role: "worker", serverCount: 1, workerCount: 1, rank: 0, threads: 1 } as const;

/**
 * Runs `use` with calls that the scheduler relays to the servers. Throws SCHEDULER_UNREACHABLE, and what `use` throws.
 */
export async function withServers<T>(request: ClusterRequest, use: (servers: ServerCalls) => Promise<T>): Promise<T> {
  return await withScheduler(request, async (found) => await use(relayedCalls(request, found)));
}

/** Calls of the servers that a scheduler passes on. */
export function relayedCalls({ clock, timeoutMs }: ClusterRequest, { scheduler, status }: FoundScheduler): ServerCalls {
  return {
    servers: serverRanks(status),
    call: async (server, fn, request) => {
      const call = { server, caller: "", name: fn.name, signature: fn.signatureHash };
      const { chunks } = fn.request.encode(request);
      const { response } = await callFunction(scheduler, relayCall, { ...call, request: joinBytes(chunks) }, { clock, timeoutMs });
      return fn.response.decode(response, 0, response.length);
    },
  };
}

/** Who answers, and with which status. */
export type FoundScheduler = {
  readonly scheduler: Channel;
  readonly address: Address;
  readonly status: StatusReply;
  readonly kind: TargetKind;
};

/** Runs `use` with a conversation with the scheduler. Throws SCHEDULER_UNREACHABLE, and what `use` throws. */
export async function withScheduler<T>(request: ClusterRequest, use: (found: FoundScheduler) => Promise<T>): Promise<T> {
  const { findMs, transport, clock } = request;
  const { address, status, target } = await findScheduler(request);
  const peer = new Peer({ transport, clock, log: SILENT_LOG, readBuffers: new PlainReadBuffers(), connectDeadlineMs: findMs });
  peer.job = target.last?.job ?? "";
  const scheduler = peer.dial(SCHEDULER_ID, address, 0);
  const leave = stayListed(scheduler, request);
  try {
    return await use({ scheduler, address, status, kind: target.kind });
  } finally {
    leave();
    await peer.close();
  }
}

/** Says that this process is there, as often as the scheduler wishes. Returns the function that ends it. */
function stayListed(scheduler: Channel, { command, clock }: ClusterRequest): () => void {
  const notice = { label: nodeLabel(), command };
  let cancel: CancelTimer = () => {};
  let isOver = false;
  const again = (everyMs: number): void => {
    if (everyMs > 0 && !isOver) cancel = clock.after(everyMs, say);
  };
  const say = (): void => {
    callJson(scheduler, toolHere, notice, clock).then(
      ({ heartbeatIntervalMs }) => again(heartbeatIntervalMs),
      // an older scheduler lists no tools
      (thrown: unknown) => again(isWeighbridgeError(thrown, "UNKNOWN_FUNCTION") ? 0 : LIST_AGAIN_MS),
    );
  };
  say();
  return () => {
    isOver = true;
    cancel();
  };
}

/**
 * Which job a command is about: the one that the command line names, or the environment or its file; else the one that
 * was last started from this directory; else the one at the default port. `timeoutMs`: for each request, rather than
 * what the configuration says. Throws BAD_CONFIG, and BAD_ARGUMENT.
 */
export function clusterRequest(
  command: string,
  flags: Flags,
  { address }: Pick<Invocation, "address">,
  timeoutMs?: number,
): ClusterRequest {
  const commandLine = configFlags(flags);
  const contradiction = address === undefined ? undefined : ADDRESS_KEYS.find((key) => commandLine[key] !== undefined);
  if (contradiction !== undefined)
    throw new WeighbridgeError("BAD_CONFIG", `${address} and ${flagOf(contradiction)} both name the scheduler: give one of them`);
  const options = { ...STAND_INS, ...(address === undefined ? {} : readSchedulerUrl(address)) };
  const { config, given } = loadOrigins({ options, commandLine, env: process.env, warn: () => {} });
  const clock = realClock();
  const transport = new SocketTransport({ clock });
  const addresses = schedulerAddresses(config);
  const isNamed = ADDRESS_KEYS.some((key) => given.has(key));
  const last = isNamed ? undefined : readLastJob();
  const started: Target[] = last === undefined ? [] : [{ kind: "directory", addresses: last.addresses, last }];
  const targets = [...started, { kind: isNamed ? "named" : "default", addresses } as const];
  return { command, targets, findMs: FIND_MS, timeoutMs: timeoutMs ?? config.requestTimeoutMs, transport, clock };
}

const UNIX_ADDRESS = /^unix:\/\/(.*)\/(\d+)\.sock$/;

/** Of a guest of the job that was found. */
export function guestConfig({ address, status: { job } }: FoundScheduler): NodeConfig {
  const [, socketDir, port] = UNIX_ADDRESS.exec(address) ?? [];
  const where =
    socketDir === undefined
      ? { transport: "tcp" as const, schedulers: outputAddress(address) }
      : { transport: "unix" as const, socketDir, schedulers: `127.0.0.1:${port}` };
  const config = loadConfig({ options: { ...STAND_INS, ...where, job }, env: process.env, warn: () => {} });
  return { ...config, rank: undefined };
}

type FoundAddress = { readonly address: Address; readonly status: StatusReply; readonly target: Target };

/** Where the scheduler answers, and its answer. Throws what the last target's first address says if none does. */
async function findScheduler({ targets, findMs, transport, clock }: ClusterRequest): Promise<FoundAddress> {
  let problem: unknown;
  for (const target of targets) {
    const problems: unknown[] = [];
    for (const address of target.addresses) {
      try {
        const status = await fetchStatus({ address, timeoutMs: findMs, transport, clock, job: target.last?.job });
        if (target.last !== undefined && !isSameJob(target.last, status)) throw otherJob(address, target.last);
        return { address, status, target };
      } catch (thrown) {
        problems.push(thrown);
      }
    }
    [problem] = problems;
    if (target.last !== undefined) printNotice(goneText(target.last, problem));
    else if (target.kind === "default") problem = withoutTarget(problem);
  }
  throw problem;
}

function goneText({ job, addresses: [address = ""] }: LastJob, problem: unknown): string {
  const isOther = isWeighbridgeError(problem, "WRONG_JOB") || isWeighbridgeError(problem, "FENCED");
  const why = isOther ? "another job answers there now" : "no scheduler answers there";
  return `job ${jobNameOf(job)}, the last one started from this directory, was at ${outputAddress(address)}: ${why}; trying the default port`;
}

function otherJob(address: Address, { job }: LastJob): WeighbridgeError {
  return new WeighbridgeError("WRONG_JOB", `the scheduler at ${address} runs another job than ${job}`);
}

/** Says how to name a job, to a user who has named none. */
function withoutTarget(problem: unknown): unknown {
  if (!isWeighbridgeError(problem, "SCHEDULER_UNREACHABLE")) return problem;
  const message = problem.message.replace(/; start one there, .*/, "");
  const fix = "none was started from this directory; name a job: weighbridge://HOST:PORT";
  return new WeighbridgeError(problem.code, `${message}; ${fix}`, { cause: problem, retryable: true });
}

/**
 * For commands that change a cluster: one that was found at the default port by chance has to be confirmed with --yes.
 * Throws BAD_CONFIG, with what the job is.
 */
export function requireMeant({ kind, address, status }: FoundScheduler, { command }: ClusterRequest, isConfirmed: boolean): void {
  if (kind !== "default" || isConfirmed) return;
  const { job, phase, serverCount, workerCount, uptimeMs } = status;
  const counts = `${countText(serverCount, "server")}, ${countText(workerCount, "worker")}`;
  const found = `job ${job} at ${outputAddress(address)}, the default port (${phase}, ${counts}, up ${durationText(uptimeMs)})`;
  const fix = `add --yes if you mean it, or name it: weighbridge ${command} weighbridge://${outputAddress(address)}`;
  throw new WeighbridgeError("BAD_CONFIG", `no job was named, and this directory has started none; found ${found}: ${fix}`);
}

export type StatusRequest = {
  readonly address: Address;
  /** The id of the job that has to answer; left out: any. */
  readonly job?: string | undefined;
  readonly timeoutMs: number;
  readonly transport: Transport;
  readonly clock: Clock;
};

/** Throws SCHEDULER_UNREACHABLE: at once when nothing listens there, after `timeoutMs` when it is not a scheduler. */
export async function fetchStatus({ address, job = "", timeoutMs, transport, clock }: StatusRequest): Promise<StatusReply> {
  const peer = new Peer({ transport, clock, log: SILENT_LOG, readBuffers: new PlainReadBuffers(), connectDeadlineMs: timeoutMs });
  peer.job = job;
  const failed = new Deferred<never>();
  peer.events = {
    unreachable: (_, error) => failed.reject(whyNot(address, error)),
    refused: (_, error) => failed.reject(whyNot(address, error)),
  };
  try {
    const scheduler = peer.dial(SCHEDULER_ID, address, 0);
    return await Promise.race([callJson(scheduler, STATUS, {}, clock, { timeoutMs }), failed.promise]);
  } catch (thrown) {
    if (!isWeighbridgeError(thrown, "DEADLINE")) throw thrown;
    throw unreachable(address, `what listens there has not answered within ${timeoutMs} ms`);
  } finally {
    await peer.close();
  }
}

function whyNot(address: Address, problem: Error): WeighbridgeError {
  if (isWeighbridgeError(problem, "WRONG_JOB") || isWeighbridgeError(problem, "FENCED")) return problem;
  const reason = problem.message.replace(`nothing answers at ${address}: `, "");
  return wrongScheduler(address, problem) ?? unreachable(address, reason, problem);
}

function unreachable(address: Address, problem: string, cause?: Error): WeighbridgeError {
  const fix = "start one there, or name another: weighbridge://HOST:PORT";
  return new WeighbridgeError("SCHEDULER_UNREACHABLE", `no scheduler answers at ${outputAddress(address)}: ${problem}; ${fix}`, {
    retryable: true,
    cause,
  });
}
