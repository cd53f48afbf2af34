// built-in — the scheduler and the server of processes that are nothing else: `weighbridge scheduler` and `server` without a script, and scripts that leave their role to
// initTraining().

import { KVServer } from "../kv/kv-server.ts";
import type { NodeConfig } from "./config/node-config.ts";
import { countsText, RosterTeller } from "./roster-teller.ts";
import { schedulerAddress } from "./scheduler-address.ts";
import { startNode } from "./start.ts";

/** Stays until everybody has left. Throws what ends the job before. */
export async function runScheduler(config: NodeConfig): Promise<void> {
  const { serverCount, workerCount, logLevel } = config;
  const isTalking = logLevel === "info" || logLevel === "debug";
  const say = (sentence: string): void => void (isTalking && process.stdout.write(`${sentence}\n`));
  const teller = new RosterTeller(config);
  // The sentences say what the log says at the level "info".
  const office = await startNode(
    { ...config, logLevel: logLevel === "info" ? "warn" : logLevel },
    {
      onListening: () => say(`waiting for ${countsText(serverCount, workerCount)} at ${schedulerAddress(config)}`),
      onRoster: (roster) => teller.tell(roster).forEach(say),
    },
  );
  await office.finalize();
  say("everybody has left");
}

/** Sums what is pushed to these applications. Stays until everybody leaves. Throws what ends the job before. */
export async function runServer(config: NodeConfig, appIds: readonly number[]): Promise<void> {
  const office = await startNode(config);
  for (const appId of appIds) new KVServer(office, appId);
  await office.finalize();
}
