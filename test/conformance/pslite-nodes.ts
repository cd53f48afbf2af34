// pslite-nodes — nodes of ps-lite that a test plays to a cluster of ours: how they register, and what they were sent.

import { EMPTY, PsCommand, type PsNode, PsRole } from "../../src/pslite/wire/ps-meta.ts";
import type { PsliteCluster } from "../../src/testing/pslite-cluster.ts";
import { messageBytes, metasOf } from "./pslite-notes.ts";
import { RawDialer, type RawListener } from "./pslite-recording.ts";

export function serverAt(port: number, fields: Partial<PsNode> = {}): PsNode {
  return { role: PsRole.SERVER, id: EMPTY, hostname: "127.0.0.1", port, isRecovery: false, customerId: 0, ...fields };
}

export function workerAt(port: number, fields: Partial<PsNode> = {}): PsNode {
  return { ...serverAt(port, fields), role: PsRole.WORKER };
}

export function registration(node: PsNode): Uint8Array {
  return messageBytes({ command: PsCommand.ADD_NODE, nodes: [node], timestamp: 0 });
}

/** An entry of a node into the barrier of this group. */
export function barrierEntry(barrierGroup: number, customerId = 0): Uint8Array {
  return messageBytes({ command: PsCommand.BARRIER, request: true, appId: 0, customerId, timestamp: 1, barrierGroup });
}

/** Dials and says who it is; "" says nothing. */
export async function dialed(cluster: PsliteCluster, port: number, identity: string): Promise<RawDialer> {
  const dialer = await RawDialer.to(cluster, port);
  dialer.greet(identity);
  return dialer;
}

/** The control messages that one node was sent, as [command, nodes]. */
export function controlsTo({ connections }: RawListener): { readonly command: number; readonly nodes: readonly PsNode[] }[] {
  return connections.flatMap(({ hex }) => metasOf(hex)).map(({ command, nodes }) => ({ command, nodes }));
}
