// cluster-client — reaches a running cluster from a command that is not a node: the scheduler reports its status and
// relays calls to the servers. Meanwhile the command is listed there as a tool (docs/decisions/0069).

import type { Command } from "commander";
import type { ServerCalls } from "../api/checkpoint.ts";
import { joinBytes } from "../base/bytes.ts";
import type { CancelTimer, Clock } from "../base/clock.ts";
import { Deferred } from "../base/deferred.ts";
import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { SILENT_LOG } from "../base/log.ts";
import { wrongScheduler } from "../cluster/start-failure.ts";
import { STATUS } from "../contracts/control.ts";
import { relayCall, toolHere } from "../contracts/tools.ts";
import { loadConfig } from "../node/config/config.ts";
import { nodeLabel, schedulerAddresses } from "../node/config/node-addresses.ts";
import { realClock } from "../node/real-clock.ts";
import { SocketTransport } from "../node/transport/socket-transport.ts";
import { callFunction, callJson } from "../peer/call-function.ts";
import type { Channel } from "../peer/channel.ts";
import { Peer } from "../peer/peer.ts";
import { PlainReadBuffers } from "../peer/request-assembly.ts";
import type { Address, Transport } from "../transport/transport.ts";
import type { StatusReply } from "../wire/control.ts";
import { SCHEDULER_ID } from "../wire/node-id.ts";
import { serverRanks } from "../wire/roster.ts";
import { addConfigFlags, configFlags, type Flags } from "./command-parts.ts";

export type ClusterRequest = {
  /** What this command is called where tools are listed. */
  readonly command: string;
  /** Where the scheduler may be. */
  readonly addresses: readonly Address[];
  /** How long to look for the scheduler. */
  readonly findMs: number;
  /** For each request; a checkpoint may take long. */
  readonly deadlineMs: number | undefined;
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
  const { deadlineMs, clock } = request;
  return await withScheduler(request, async ({ scheduler, status }) => {
    return await use({
      servers: serverRanks(status),
      call: async (server, fn, request) => {
        const call = { server, caller: "", name: fn.name, signature: fn.signatureHash };
        const { chunks } = fn.request.encode(request);
        const { response } = await callFunction(scheduler, relayCall, { ...call, request: joinBytes(chunks) }, { clock, deadlineMs });
        return fn.response.decode(response, 0, response.length);
      },
    });
  });
}

/** Who answers, and with which status. */
export type FoundScheduler = { readonly scheduler: Channel; readonly address: Address; readonly status: StatusReply };

/** Runs `use` with a conversation with the scheduler. Throws SCHEDULER_UNREACHABLE, and what `use` throws. */
export async function withScheduler<T>(request: ClusterRequest, use: (found: FoundScheduler) => Promise<T>): Promise<T> {
  const { findMs, transport, clock } = request;
  const { address, status } = await findScheduler(request);
  const peer = new Peer({ transport, clock, log: SILENT_LOG, readBuffers: new PlainReadBuffers(), connectDeadlineMs: findMs });
  const scheduler = peer.dial(SCHEDULER_ID, address, 0);
  const leave = stayListed(scheduler, request);
  try {
    return await use({ scheduler, address, status });
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

/** Where the scheduler is, and from which file: keys of the configuration that every command needs for a cluster. */
const CLUSTER_KEYS = ["schedulers", "schedulerHost", "schedulerPort", "transport", "van", "socketDir", "config", "section"];

/** `more`: other keys that the command uses. */
export function addClusterFlags(command: Command, ...more: readonly string[]): Command {
  return addConfigFlags(command, { only: [...CLUSTER_KEYS, ...more] });
}

export function clusterRequest(command: string, flags: Flags): ClusterRequest {
  const config = loadConfig({ options: STAND_INS, commandLine: configFlags(flags), env: process.env, warn: () => {} });
  const clock = realClock();
  const transport = new SocketTransport({ clock });
  return { command, addresses: schedulerAddresses(config), findMs: FIND_MS, deadlineMs: config.requestTimeoutMs, transport, clock };
}

/** The address at which the scheduler answers, and its answer. Throws what the first of them says if none does. */
async function findScheduler({
  addresses,
  findMs,
  transport,
  clock,
}: ClusterRequest): Promise<{ readonly address: Address; readonly status: StatusReply }> {
  const problems: unknown[] = [];
  for (const address of addresses) {
    try {
      return { address, status: await fetchStatus({ address, deadlineMs: findMs, transport, clock }) };
    } catch (thrown) {
      problems.push(thrown);
    }
  }
  throw problems[0];
}

export type StatusRequest = {
  readonly address: Address;
  readonly deadlineMs: number;
  readonly transport: Transport;
  readonly clock: Clock;
};

/** Throws SCHEDULER_UNREACHABLE: at once when nothing listens there, after `deadlineMs` when it is not a scheduler. */
export async function fetchStatus({ address, deadlineMs, transport, clock }: StatusRequest): Promise<StatusReply> {
  const peer = new Peer({ transport, clock, log: SILENT_LOG, readBuffers: new PlainReadBuffers(), connectDeadlineMs: deadlineMs });
  const failed = new Deferred<never>();
  peer.events = {
    unreachable: (_, error) => failed.reject(whyNot(address, error)),
    refused: (_, error) => failed.reject(whyNot(address, error)),
  };
  try {
    const scheduler = peer.dial(SCHEDULER_ID, address, 0);
    return await Promise.race([callJson(scheduler, STATUS, {}, clock, { deadlineMs }), failed.promise]);
  } catch (thrown) {
    if (!isWeighbridgeError(thrown, "DEADLINE")) throw thrown;
    throw unreachable(address, `something listens there, but it did not answer as a scheduler within ${deadlineMs} ms`);
  } finally {
    await peer.close();
  }
}

function whyNot(address: Address, problem: Error): WeighbridgeError {
  return wrongScheduler(address, problem) ?? unreachable(address, problem.message, problem);
}

function unreachable(address: Address, problem: string, cause?: Error): WeighbridgeError {
  const fix = "start one there, or name the right address with --scheduler-host and --scheduler-port";
  return new WeighbridgeError("SCHEDULER_UNREACHABLE", `no scheduler at ${address} (${problem}); ${fix}`, { retryable: true, cause });
}
