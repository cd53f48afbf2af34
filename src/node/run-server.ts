// run-server — the server of a process that is nothing else: `weighbridge server` without a script, and scripts whose
// role initTraining() runs.

import { isWeighbridgeError } from "../base/errors.ts";
import type { ClusterNode } from "../cluster/cluster-node.ts";
import { KVServer } from "../faces/kv/kv-server.ts";
import { jobNameOf } from "../wire/hello.ts";
import { roleOf } from "../wire/node-id.ts";
import type { NodeConfig } from "./config/node-config.ts";
import { whyNoOther } from "./no-other-application.ts";
import { outputAddress, outputName } from "./output-name.ts";
import { startNode } from "./start.ts";

/**
 * Sums what is pushed to these applications. Runs until all nodes leave, or this one is to leave before them, or was a
 * spare that the job did not need. Throws the error that ends the job early.
 */
export async function runServer(
  config: NodeConfig,
  appIds: readonly number[],
  onStarted: (node: ClusterNode) => void = () => {},
): Promise<void> {
  const office = await startNode(config).catch((thrown: unknown) => {
    if (!isWeighbridgeError(thrown, "CLOSED")) throw thrown;
    process.stderr.write(`${thrown.message}\n`);
  });
  if (office === undefined) return;
  const { logLevel } = config;
  if (logLevel === "info" || logLevel === "debug") process.stdout.write(`${joinedText(office.node)}\n`);
  for (const appId of appIds) new KVServer(office, appId);
  for (const registry of [office.server?.apps, office.applications]) registry?.complete(whyNoOther(appIds));
  onStarted(office.node);
  await office.finalize();
}

/** For people who watch a server: which rank it has, where it listens, and in which job. */
function joinedText({ id, rank, roster, peer }: ClusterNode): string {
  const { address, incarnation } = roster.nodes.find(({ node }) => node === id) ?? { address: "", incarnation: 1 };
  const name = outputName(roleOf(id), rank);
  const where = address === "" ? "" : `  ${outputAddress(address)}`;
  return `${name} ready${where}  job ${jobNameOf(peer.job)}${incarnation > 1 ? `  incarnation ${incarnation}` : ""}`;
}
