// start — makes a Postoffice out of a process: configuration, sockets, clock and log lines. The composition root of the kv face.

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { join, resolve } from "node:path";
import packageJson from "weighbridge/package.json" with { type: "json" };
import { Postoffice } from "../kv/postoffice.ts";
import type { PostofficeOptions } from "../kv/postoffice-options.ts";
import type { Address } from "../transport/transport.ts";
import type { StatusReply } from "../wire/control.ts";
import { nameOf } from "../wire/node-id.ts";
import { loadNodeConfig, orTellOthers } from "./cannot-start.ts";
import { openCheckpoint } from "./checkpoint/open-checkpoint.ts";
import { ServerFiles } from "./checkpoint/server-files.ts";
import { requireWritableDirectory } from "./checkpoint/writable-directory.ts";
import type { NodeConfig, NodeConfigOptions } from "./config/node-config.ts";
import { onEndSignal } from "./end-signal.ts";
import { EscapedRejections } from "./escaped-rejections.ts";
import { loadFunctions } from "./function-module.ts";
import { hugePages } from "./huge-pages.ts";
import { publishDeadNodes, publishRoster } from "./launcher/dead-nodes.ts";
import { realClock } from "./real-clock.ts";
import { requireNodeSockets } from "./runtime.ts";
import { schedulerAddress, tcpAddress } from "./scheduler-address.ts";
import { textLog } from "./text-log.ts";
import { boundSendBuffers } from "./transport/send-buffer.ts";
import { SocketTransport } from "./transport/socket-transport.ts";
import { wakefulLoop } from "./transport/wakeful-loop.ts";
import { zstd } from "./zstd.ts";

export type StartOptions = NodeConfigOptions & {
  /** False starts without waiting for the other nodes to be ready (ps-lite: StartAsync). */
  readonly startBarrier?: boolean;
};

/** Starts the node that options, environment and file describe. Throws BAD_CONFIG, and what Postoffice.start throws. */
export async function start({ startBarrier = true, ...options }: StartOptions = {}): Promise<Postoffice> {
  return await startNode(await loadNodeConfig({ options, env: process.env }), { startBarrier });
}

type NodeOptions = Pick<PostofficeOptions, "startBarrier" | "onListening" | "onRoster" | "signal" | "deadlineMs">;

/** Starts the node of a configuration that was loaded before. A signal that ends the process makes a server leave first, also while it starts. */
export async function startNode(config: NodeConfig, options: NodeOptions = {}): Promise<Postoffice> {
  const ended = new AbortController();
  const leave = async (): Promise<void> => {
    ended.abort();
    await (await starting).leave();
  };
  const stopListening = onEndSignal(config.role === "server" ? leave : undefined);
  const signal = options.signal === undefined ? ended.signal : AbortSignal.any([options.signal, ended.signal]);
  const starting = openNode(config, { ...options, signal });
  try {
    const office = await starting;
    office.registerExitCallback(stopListening);
    return office;
  } catch (thrown) {
    if (ended.signal.aborted) await new Promise<never>(() => {}); // The process ends now; that its node did not start is no news.
    stopListening();
    throw thrown;
  }
}

async function openNode(config: NodeConfig, options: NodeOptions): Promise<Postoffice> {
  const { role, serverCount, workerCount, rank, heartbeatIntervalMs, heartbeatTimeoutMs, startTimeoutMs, resendTimeoutMs } = config;
  requireNodeSockets();
  const pslite = config.van === "weighbridge" ? undefined : await import("./pslite-transport.ts"); // 29 modules that few nodes need
  const clock = realClock();
  const loop = config.wakefulLoop === "on" ? wakefulLoop(clock) : undefined;
  let office: Postoffice | undefined;
  const log = textLog({ level: config.logLevel, who: () => (office === undefined || office.nodeId === 0 ? role : nameOf(office.nodeId)) });
  const boundSendBuffer = role === "scheduler" ? undefined : await boundSendBuffers({ log });
  const functions =
    role === "server" && config.functions !== undefined
      ? await orTellOthers(
          () => config,
          () => loadFunctions(config.functions ?? ""),
        )
      : [];
  const checkpoints =
    role === "server"
      ? await orTellOthers(
          () => config,
          () => checkpointOptions(config),
        )
      : {};
  const escaped = functions.length === 0 ? undefined : new EscapedRejections(log);
  office = await Postoffice.start({
    role,
    serverCount,
    workerCount,
    schedulerAddress: schedulerAddress(config),
    ...(role === "server" ? { listenAddress: listenAddress(config, config.port) } : {}),
    ...(role === "worker" && pslite === undefined ? { meshAddress: listenAddress(config, config.port) } : {}),
    advertise: (bound: Address) => advertised(config, bound),
    rank,
    packageVersion: packageJson.version,
    label: config.nodeId ?? `${hostname()}:${process.pid}`,
    transport: new SocketTransport({ clock, log, loop, boundSendBuffer }),
    clock,
    log,
    heartbeatIntervalMs,
    heartbeatTimeoutMs,
    startTimeoutMs,
    resendTimeoutMs,
    requestTimeoutMs: config.requestTimeoutMs,
    linkTimeoutMs: config.linkTimeoutMs,
    faults: hasFaults(config) ? config.faults : undefined,
    limits: { queuedMax: config.outboxMessagesMax, inFlightBytesMax: config.outboxBytesMax },
    arenaBytesMax: config.arenaBytesMax,
    compression: zstd(),
    ...(escaped === undefined ? {} : { functions: functions.map((fn) => escaped.watch(fn)) }),
    ...(role === "server" ? { ...checkpoints, onMemory: await hugePages({ log }) } : {}),
    ...(role === "scheduler" && config.managePort !== 0
      ? { manage: (status: () => StatusReply) => serveHttp(config.managePort, status) }
      : {}),
    placement: config.placement,
    jobId: randomUUID(),
    incarnation: Date.now(),
    ...(pslite === undefined
      ? {}
      : {
          ...pslite.psliteOptions(config, { clock, log, loop, boundSendBuffer }),
          advertise: (bound: Address) => advertisedTcp(config, bound),
        }),
    ...options,
    onRoster: (roster) => {
      options.onRoster?.(roster);
      publishRoster(role, roster);
    },
    onOnlyDead: (names, dismiss) => publishDeadNodes({ names, dismiss }),
  });
  if (escaped !== undefined) office.registerExitCallback(() => escaped.close());
  return office;
}

/** Node's HTTP costs 9 to 17 MB of memory, which nobody else needs. */
async function serveHttp(port: number, status: () => StatusReply): Promise<{ close(): Promise<void> }> {
  const { serveManagement } = await import("./manage-server.ts");
  return await serveManagement(port, status);
}

/** Where a server keeps checkpoints, and with which one it begins. Throws BAD_CONFIG when nothing can be saved there. */
export function checkpointOptions({
  checkpointDir,
  restore,
}: {
  readonly checkpointDir?: string | undefined;
  readonly restore?: string | undefined;
}): Pick<PostofficeOptions, "checkpointFiles" | "restoreFrom"> {
  if (checkpointDir !== undefined) requireWritableDirectory(checkpointDir);
  return {
    ...(checkpointDir === undefined ? {} : { checkpointFiles: new ServerFiles(resolve(checkpointDir)) }),
    ...(restore === undefined ? {} : { restoreFrom: () => openCheckpoint(resolve(restore)) }),
  };
}

/** Where a server listens, and a worker for other workers. */
function listenAddress({ transport, socketDir, schedulerPort, host }: NodeConfig, port: number): Address {
  if (transport === "unix") return `unix://${join(socketDir, `${schedulerPort}-${process.pid}-${randomUUID().slice(0, 8)}.sock`)}`;
  return tcpAddress(host, port);
}

/** The bound port, at the host that others are told. */
function advertised(config: NodeConfig, bound: Address): Address {
  return config.transport === "unix" ? bound : advertisedTcp(config, bound);
}

function advertisedTcp({ advertiseHost }: NodeConfig, bound: Address): Address {
  return tcpAddress(advertiseHost, Number(bound.slice(bound.lastIndexOf(":") + 1)));
}

function hasFaults({ faults }: NodeConfig): boolean {
  return faults.dropPercent > 0 || faults.duplicatePercent > 0 || faults.reorderPercent > 0;
}
