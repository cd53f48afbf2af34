// process-node — starts a node in a process: sockets, clock and log for any role; a server, and a scheduler that has
// standbys, leaves before a signal ends its process. Each file *-root.ts adds a role, so that a process loads its own
// role alone.

import { randomUUID } from "node:crypto";
import { availableParallelism, hostname } from "node:os";
import { join } from "node:path";
import packageJson from "weighbridge/package.json" with { type: "json" };
import type { Clock } from "../base/clock.ts";
import type { Log, Logger } from "../base/log.ts";
import type { ClusterNode } from "../cluster/cluster-node.ts";
import type { MemberOptions, NodeOptions } from "../cluster/node-options.ts";
import type { Address } from "../transport/transport.ts";
import { nameOf } from "../wire/node-id.ts";
import type { RosterView } from "../wire/roster.ts";
import { schedulerAddresses } from "./config/node-addresses.ts";
import type { NodeConfig } from "./config/node-config.ts";
import { onEndSignal } from "./end-signal.ts";
import { nodeLog } from "./logger-log.ts";
import { hostOf } from "./output-name.ts";
import { processPulse } from "./pulse.ts";
import { backgroundClock, realClock } from "./real-clock.ts";
import { type BoundSendBuffer, boundSendBuffers } from "./transport/send-buffer.ts";
import type { SharedMemorySystem } from "./transport/shared-memory.ts";
import { formatTcpAddress } from "./transport/socket-address.ts";
import { requireNodeSockets, SocketTransport } from "./transport/socket-transport.ts";
import { coreOffer, type WakefulLoop, wakefulLoop } from "./transport/wakeful-loop.ts";

/** What a process provides to its node. */
export type Surroundings = {
  readonly clock: Clock;
  readonly log: Log;
  readonly loop: WakefulLoop | undefined;
  readonly boundSendBuffer: BoundSendBuffer | undefined;
  readonly sharedMemory: SharedMemorySystem | undefined;
  /** As SocketTransportOptions.isBackground. */
  readonly isBackground: boolean;
};

/** Options of a transport that is not our own. */
export type TransportOptions = Pick<MemberOptions, "transport" | "gateway" | "schedulerAddress" | "limits" | "pulse"> &
  Partial<Pick<MemberOptions, "otherSchedulers" | "listenAddress" | "advertise" | "resendTimeoutMs" | "faults">>;

export type ProcessNodeOptions = Pick<NodeOptions, "startBarrier" | "onRoster" | "signal" | "timeoutMs"> & {
  /** Left out: our own protocol over sockets. */
  readonly transportOf?: ((config: NodeConfig, surroundings: Surroundings) => TransportOptions) | undefined;
  /** Whether the node says how long it keeps the process (keep-process.ts); otherwise its links and timers do. */
  readonly isBackground?: boolean;
  /** Wraps the clock of the node. */
  readonly clockOf?: (clock: Clock) => Clock;
  /** Where its log lines go; left out: to standard error. */
  readonly logger?: Logger | undefined;
  /** Called with the node before it starts. */
  readonly onComposed?: (node: ClusterNode) => void;
};

/** Starts the node that `compose` makes. Throws what starting a node throws. */
export async function startProcessNode<N extends ClusterNode>(
  config: NodeConfig,
  options: ProcessNodeOptions,
  compose: (common: NodeOptions, surroundings: Surroundings) => N | Promise<N>,
): Promise<N> {
  const ended = new AbortController();
  let composed: N | undefined;
  const leave = async (): Promise<boolean> => {
    ended.abort();
    await (await starting.catch(() => undefined))?.leave(); // one that still starts leaves by itself
    return composed?.hasSuccessor === true;
  };
  const hasSuccessor = config.role === "server" || (config.role === "scheduler" && config.etcd !== undefined);
  const stopListening = onEndSignal(hasSuccessor ? leave : undefined, config);
  const signal = options.signal === undefined ? ended.signal : AbortSignal.any([options.signal, ended.signal]);
  const starting = startComposed(config, { ...options, signal }, async (...given) => {
    composed = await compose(...given);
    return composed;
  });
  try {
    const node = await starting;
    node.registerExitCallback(stopListening);
    return node;
  } catch (thrown) {
    // The process ends now; that its node did not start need not be reported.
    if (ended.signal.aborted) await new Promise<never>(() => {});
    stopListening();
    throw thrown;
  }
}

async function startComposed<N extends ClusterNode>(
  config: NodeConfig,
  { transportOf = socketOptions, isBackground = false, clockOf = (own) => own, logger, onComposed, ...options }: ProcessNodeOptions,
  compose: (common: NodeOptions, surroundings: Surroundings) => N | Promise<N>,
): Promise<N> {
  const { role, serverCount, workerCount, startTimeoutMs, resendTimeoutMs, requestTimeoutMs, faults } = config;
  requireNodeSockets();
  const clock = clockOf(isBackground ? backgroundClock() : realClock());
  const loop = config.wakefulLoop === "on" ? wakefulLoop(clock) : undefined;
  const isClient = role === "worker";
  // a scheduler has little to say, and koffi takes memory
  const offerCore = loop === undefined || role === "scheduler" ? undefined : await coreOffer();
  let started: N | undefined;
  const lines = { level: config.logLevel, who: () => (started === undefined ? role : nameOf(started.id)) };
  const log = nodeLog(logger, lines);
  const boundSendBuffer = role === "scheduler" ? undefined : await boundSendBuffers({ log });
  const memories = role === "scheduler" || config.sharedMemory === "off" ? undefined : await sharedMemoryOf(log);
  const surroundings = { clock, log, loop, boundSendBuffer, sharedMemory: memories, isBackground };
  const common = {
    job: config.job,
    serverCount,
    workerCount,
    packageVersion: packageJson.version,
    clock,
    log,
    startTimeoutMs,
    resendTimeoutMs,
    requestTimeoutMs,
    faults: hasFaults(config) ? faults : undefined,
    ...transportOf(config, surroundings),
    ...options,
    onRoster: (roster: RosterView) => {
      if (loop !== undefined) shareCores(loop, nodesHere(roster), isClient);
      if (loop !== undefined) loop.offerCore = roster.nodes.some((entry) => entry.role === "standby") ? offerCore : undefined;
      options.onRoster?.(roster);
    },
  };
  const node = await compose(common, surroundings);
  onComposed?.(node);
  await node.start();
  started = node;
  return node;
}

function socketOptions(config: NodeConfig, surroundings: Surroundings): TransportOptions {
  const [schedulerAddress, ...otherSchedulers] = schedulerAddresses(config);
  return {
    transport: new SocketTransport(surroundings),
    schedulerAddress,
    otherSchedulers,
    pulse: processPulse(surroundings.log),
    limits: { queuedMax: config.outboxMessagesMax, inFlightBytesMax: config.outboxBytesMax },
  };
}

/** Where a server listens for workers, and a worker for other workers. */
export function listenAddress({ transport, socketDir, schedulerPort, host, listenPort }: NodeConfig): Address {
  if (transport === "unix") return `unix://${join(socketDir, `${schedulerPort}-${process.pid}-${randomUUID().slice(0, 8)}.sock`)}`;
  return formatTcpAddress(host, listenPort);
}

/** The bound port, at the advertised host. */
export function advertised({ advertiseHost }: NodeConfig, bound: Address): Address {
  return bound.startsWith("unix:") ? bound : formatTcpAddress(advertiseHost, Number(bound.slice(bound.lastIndexOf(":") + 1)));
}

/** From so many nodes a core on, none stays awake (WakefulLoop.W6). */
const CROWD = 3;

function shareCores(loop: WakefulLoop, nodeCount: number, isClient: boolean): void {
  const cores = availableParallelism();
  loop.hasOwnCore = isClient && nodeCount <= cores;
  loop.isCrowded = nodeCount >= CROWD * cores;
}

/** How many nodes of the job want a core of this host: all but the scheduler. Labels of users' own count as here. */
function nodesHere({ nodes }: RosterView): number {
  const wantCores = nodes.filter(({ role, state }) => role !== "scheduler" && state === "alive");
  return wantCores.filter(({ label }) => hostOf(label) === hostname()).length;
}

function hasFaults({ faults }: NodeConfig): boolean {
  return faults.dropPercent > 0 || faults.duplicatePercent > 0 || faults.reorderPercent > 0;
}

/** Loaded where it is wanted: not by schedulers, nor by nodes that turn it off. */
async function sharedMemoryOf(log: Log): Promise<SharedMemorySystem | undefined> {
  const { sharedMemory } = await import("./transport/shared-memory.ts");
  return await sharedMemory({ log });
}
