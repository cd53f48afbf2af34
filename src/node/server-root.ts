// server-root — makes a process, or a thread of one, a server of a cluster. A composition root.

import { hostname } from "node:os";
import { resolve } from "node:path";
import { ServerNode, type ServerNodeOptions } from "../server/server-node.ts";
import { SAVE_MS } from "../server/stop-bounds.ts";
import { orReport } from "./cannot-start.ts";
import { requireWritableDirectory } from "./checkpoint/checkpoint-directory.ts";
import { openCheckpoint, resumeCheckpoint } from "./checkpoint/find-checkpoint.ts";
import { takeLastCheckpoint } from "./checkpoint/last-checkpoint.ts";
import { PeriodicCheckpoints } from "./checkpoint/periodic-checkpoints.ts";
import { ServerFiles } from "./checkpoint/server-files.ts";
import { intervalOf } from "./config/interval.ts";
import { nodeLabel } from "./config/node-addresses.ts";
import type { NodeConfig } from "./config/node-config.ts";
import { durableDirectory } from "./durable/durable-directory.ts";
import { SegmentLog } from "./durable/segment-log.ts";
import { StoppedServers } from "./durable/stopped-servers.ts";
import { clockOutsideCalls, EscapedFailures, transportOutsideCalls } from "./escaped-failures.ts";
import { hugePages } from "./huge-pages.ts";
import { publishCopy } from "./launcher/launcher-pipe.ts";
import { advertised, listenAddress, type ProcessNodeOptions, startProcessNode } from "./process-node.ts";
import { loadServerModule, type ServerModule } from "./server-module.ts";
import { zstd } from "./zstd.ts";

/**
 * Starts the server of a configuration. Throws what starting a node throws; problems of its functions or checkpoints
 * are reported to the others first.
 */
export async function startServer(config: NodeConfig, options: ProcessNodeOptions = {}): Promise<ServerNode> {
  const stopped = new StoppedServers(config);
  try {
    return await startOnce(config, options, stopped);
  } catch (thrown) {
    if (!stopped.giveUp(thrown)) throw thrown;
    return await startOnce(config, options, stopped);
  }
}

/** Starts the server with what a process of its rank has left when it was stopped, if anything. */
async function startOnce(config: NodeConfig, options: ProcessNodeOptions, stopped: StoppedServers): Promise<ServerNode> {
  const { rank, linkTimeoutMs, arenaBytesMax, replicas } = config;
  let node: ServerNode | undefined;
  const onRoster: ProcessNodeOptions["onRoster"] = (roster) => {
    options.onRoster?.(roster);
    if (replicas > 1 && node !== undefined) publishCopy(roster, node.peer.token);
  };
  const outsideCalls = config.functions === undefined ? {} : { clockOf: clockOutsideCalls };
  const started = await startProcessNode(config, { ...options, ...outsideCalls, onRoster }, async (common, { log, clock }) => {
    const { loaded, checkpoints, durable, stops } = await orReport(
      () => config,
      async () => ({
        loaded: config.functions === undefined ? undefined : await loadServerModule(config.functions),
        checkpoints: checkpointOptions(config),
        durable: durableDirectory(config),
        stops: await stopped.files(clock, log),
      }),
    );
    const functions = loaded?.functions ?? [];
    const escaped = functions.length === 0 ? undefined : new EscapedFailures(log);
    const composed = new ServerNode({
      rank,
      label: nodeLabel(config),
      linkTimeoutMs,
      listenAddress: listenAddress(config),
      advertise: (bound) => advertised(config, bound),
      arenaBytesMax,
      replicas,
      copyOf: copyOf(config, loaded),
      compression: zstd(),
      plugIns: loaded === undefined ? [] : [loaded.plugIns],
      functions: escaped === undefined ? [] : functions.map((fn) => escaped.watch(fn)),
      onState: (arena) => void hugePages({ log }).then((advise) => advise?.(arena)),
      ...checkpoints,
      serves: config.serve === "on",
      ...(durable === undefined ? {} : { durable: new SegmentLog({ directory: durable, clock, log }) }),
      stops,
      ...common,
      ...(escaped === undefined ? {} : { transport: transportOutsideCalls(common.transport) }),
    });
    if (escaped !== undefined) composed.registerExitCallback(() => escaped.close());
    node = composed;
    return composed;
  });
  const { checkpointDir, checkpointEvery, keep } = config;
  const periodic = checkpointEvery === undefined ? undefined : new PeriodicCheckpoints(started, { ...intervalOf(checkpointEvery), keep });
  if (periodic !== undefined) started.closeWith(periodic);
  if (checkpointDir !== undefined && config.van === "weighbridge") {
    const files = new ServerFiles(resolve(checkpointDir));
    started.beforeEnd = () => takeLastCheckpoint(started, { files, keep, periodic, saveMs: SAVE_MS });
  }
  return started;
}

/** What the scheduler has to know of a server that may share its rank with another. */
function copyOf({ arenaBytesMax }: NodeConfig, loaded: ServerModule | undefined): ServerNodeOptions["copyOf"] {
  const settings = [`arenaBytesMax ${arenaBytesMax}`, `functions ${loaded?.plugIns.hash ?? "none"}`];
  return { host: hostname(), process: String(process.pid), settings };
}

/**
 * Where a server keeps checkpoints, and which one it begins with. Throws BAD_CONFIG if the directory cannot be written.
 */
export function checkpointOptions({
  checkpointDir,
  restore,
  resume,
}: {
  readonly checkpointDir?: string | undefined;
  readonly restore?: string | undefined;
  readonly resume?: string | undefined;
}): Pick<ServerNodeOptions, "checkpointFiles" | "restoreFrom" | "mayBeginEmpty"> {
  if (checkpointDir !== undefined) requireWritableDirectory(checkpointDir);
  return {
    ...(checkpointDir === undefined ? {} : { checkpointFiles: new ServerFiles(resolve(checkpointDir)) }),
    ...(restore === undefined ? {} : { restoreFrom: () => openCheckpoint(resolve(restore)) }),
    ...(resume === undefined ? {} : { restoreFrom: () => resumeCheckpoint(resolve(resume)), mayBeginEmpty: true }),
  };
}
