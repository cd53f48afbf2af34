// run-server — the server of a process that is nothing else: `weighbridge server` without a script, and scripts whose
// role initTraining() runs.

import type { ClusterNode } from "../cluster/cluster-node.ts";
import { KVServer } from "../faces/kv/kv-server.ts";
import type { NodeConfig } from "./config/node-config.ts";
import { startNode } from "./start.ts";

/** Sums what is pushed to these applications. Runs until all nodes leave. Throws the error that ends the job early. */
export async function runServer(
  config: NodeConfig,
  appIds: readonly number[],
  onStarted: (node: ClusterNode) => void = () => {},
): Promise<void> {
  const office = await startNode(config);
  for (const appId of appIds) new KVServer(office, appId);
  onStarted(office.node);
  await office.finalize();
}
