// start — makes a process a node in ps-lite's words: configuration, then a Postoffice over the node of its role. The
// composition root of the kv face.

import { assert } from "../base/assert.ts";
import type { WaitOptions } from "../base/deferred.ts";
import { badArgument, showValue } from "../base/errors.ts";
import { checkWaitOptions, WAIT_NAMES } from "../base/known-options.ts";
import { Postoffice } from "../faces/kv/postoffice.ts";
import { loadNodeConfig } from "./cannot-start.ts";
import type { NodeConfig, NodeConfigOptions } from "./config/node-config.ts";
import { type RoleOptions, startRole } from "./start-role.ts";

/** How a node is started. */
export type StartOptions = NodeConfigOptions & {
  /** False starts without waiting for the other nodes to be ready (ps-lite: StartAsync). */
  readonly startBarrier?: boolean | undefined;
};

/** How the node of a configuration is started. */
export type StartNodeOptions = WaitOptions & {
  /** False starts without waiting for the other nodes to be ready (ps-lite: StartAsync). */
  readonly startBarrier?: boolean | undefined;
  /** @internal */
  readonly onListening?: NonNullable<RoleOptions["onListening"]>;
  /** @internal */
  readonly onRoster?: NonNullable<RoleOptions["onRoster"]>;
};

const START_NODE_OPTIONS: readonly string[] = ["startBarrier", "onListening", "onRoster", ...WAIT_NAMES];

/** Starts the node that options, environment and file describe. Throws BAD_CONFIG, and what starting a node throws. */
export async function start(options: StartOptions = {}): Promise<Postoffice> {
  if (typeof options !== "object" || options === null) throw badArgument(`the options of start are an object, not ${showValue(options)}`);
  const { startBarrier = true, ...configured } = options;
  return await startNode(await loadNodeConfig({ options: configured, otherOptions: ["startBarrier"], env: process.env }), { startBarrier });
}

/** Starts the node of a configuration that was loaded before. */
export async function startNode(config: NodeConfig, options: StartNodeOptions = {}): Promise<Postoffice> {
  checkWaitOptions(options, START_NODE_OPTIONS, "the options of startNode");
  return await officeOver(config, options);
}

/** A Postoffice over the node that is started; with `sessions`, a worker can open sessions beside ps-lite's calls. */
export async function officeOver(config: NodeConfig, options: Omit<RoleOptions, "onComposed">): Promise<Postoffice> {
  let office: Postoffice | undefined;
  const onComposed: RoleOptions["onComposed"] = (node) => {
    office = new Postoffice(node); // before it starts: requests to its applications may arrive at once
  };
  await startRole(config, { ...options, onComposed });
  assert(office !== undefined, "a node is composed before it starts");
  return office;
}
