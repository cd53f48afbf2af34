// run-scheduler — the scheduler of processes that are nothing else: `weighbridge scheduler` without a script, and scripts that leave their role to initTraining().

import type { ClusterNode } from "../cluster/cluster-node.ts";
import type { NodeConfig } from "./config/node-config.ts";
import { countsText, RosterChanges } from "./roster-changes.ts";
import { schedulerAddress } from "./scheduler-address.ts";
import { startRole } from "./start-role.ts";

/** Stays until everybody has left. Throws what ends the job before. */
export async function runScheduler(config: NodeConfig, onStarted: (node: ClusterNode) => void = () => {}): Promise<void> {
  const { serverCount, workerCount, logLevel } = config;
  const isTalking = logLevel === "info" || logLevel === "debug";
  const say = (sentence: string): void => void (isTalking && process.stdout.write(`${sentence}\n`));
  const teller = new RosterChanges(config);
  // The sentences say what the log says at the level "info".
  const node = await startRole(
    { ...config, logLevel: logLevel === "info" ? "warn" : logLevel },
    {
      onListening: () => say(`waiting for ${countsText(serverCount, workerCount)} at ${schedulerAddress(config)}`),
      onRoster: (roster) => teller.tell(roster).forEach(say),
    },
  );
  onStarted(node);
  await node.finalize();
  say("everybody has left");
}
