// cannot-start — a process that cannot become a node (its rank is beyond the counts, its module is missing) reports why
// to the scheduler, so that the others end with that error instead of waiting (docs/decisions/0019).

import packageJson from "weighbridge/package.json" with { type: "json" };
import { isWeighbridgeError } from "../base/errors.ts";
import { SILENT_LOG } from "../base/log.ts";
import { reportStartFailure, wrongScheduler } from "../cluster/start-failure.ts";
import { Peer } from "../peer/peer.ts";
import { PlainReadBuffers } from "../peer/request-assembly.ts";
import { type ConfigSources, loadConfig } from "./config/config.ts";
import { nodeLabel, schedulerAddresses } from "./config/node-addresses.ts";
import type { NodeConfig } from "./config/node-config.ts";
import { realClock } from "./real-clock.ts";
import { SocketTransport } from "./transport/socket-transport.ts";

/** `loadConfig` for a process that is a node: if only its rank is wrong, it reports that before it throws. */
export async function loadNodeConfig(sources: ConfigSources): Promise<NodeConfig> {
  return await orReport(
    () => loadConfig({ ...sources, isAnyRankAllowed: true, warn: () => {} }),
    () => loadConfig(sources),
  );
}

/** Returns what `prepare` returns, which a node of this configuration needs to start; reports what it throws first. */
export async function orReport<T>(configOf: () => NodeConfig, prepare: () => T | Promise<T>): Promise<T> {
  try {
    return await prepare();
  } catch (thrown) {
    let config: NodeConfig | undefined;
    try {
      config = configOf();
    } catch {
      // A process that does not know its scheduler cannot report; its own error is thrown anyway.
    }
    if (config !== undefined) await reportCannotStart(config, thrown);
    throw thrown;
  }
}

/** Never throws. */
async function reportCannotStart(config: NodeConfig, thrown: unknown): Promise<void> {
  const { role, rank, serverCount, workerCount } = config;
  if (role === "scheduler" || !isWeighbridgeError(thrown)) return;
  const clock = realClock();
  const log = SILENT_LOG; // the error itself is reported
  const transport = new SocketTransport({ clock });
  const peer = new Peer({ transport, clock, log, readBuffers: new PlainReadBuffers(), packageVersion: packageJson.version, kind: role });
  const [address, ...otherSchedulers] = schedulerAddresses(config);
  peer.events = {
    unreachable: (channel, problem) => {
      const wrong = wrongScheduler(address, problem);
      if (wrong !== undefined) peer.drop(channel, wrong); // nobody there understands it
    },
  };
  const node = { role, rank, serverCount, workerCount, label: nodeLabel(config) };
  try {
    await reportStartFailure({ peer, clock, log, schedulerAddress: address, otherSchedulers, node }, thrown);
  } finally {
    await peer.close();
  }
}
