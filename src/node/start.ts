// start — a process as a node in ps-lite's words: configuration, then a Postoffice over the node of its role. The composition root of the kv face.

import { assert } from "../base/assert.ts";
import { Postoffice } from "../kv/postoffice.ts";
import { loadNodeConfig } from "./cannot-start.ts";
import type { NodeConfig, NodeConfigOptions } from "./config/node-config.ts";
import type { SchedulerRootOptions } from "./scheduler-root.ts";
import { startRole } from "./start-role.ts";

export type StartOptions = NodeConfigOptions & {
  /** False starts without waiting for the other nodes to be ready (ps-lite: StartAsync). */
  readonly startBarrier?: boolean;
};

/** Starts the node that options, environment and file describe. Throws BAD_CONFIG, and what starting a node throws. */
export async function start({ startBarrier = true, ...options }: StartOptions = {}): Promise<Postoffice> {
  return await startNode(await loadNodeConfig({ options, env: process.env }), { startBarrier });
}

/** Starts the node of a configuration that was loaded before. */
export async function startNode(
  config: NodeConfig,
  options: Pick<SchedulerRootOptions, "startBarrier" | "onListening" | "onRoster" | "signal" | "deadlineMs"> = {},
): Promise<Postoffice> {
  let office: Postoffice | undefined;
  const onComposed: SchedulerRootOptions["onComposed"] = (node) => {
    office = new Postoffice(node); // before it starts: requests to its applications may come at once
  };
  await startRole(config, { ...options, onComposed });
  assert(office !== undefined, "a node is composed before it starts");
  return office;
}
