// tensors — Hetu's worker, server and scheduler in a process: init reads options, environment and file as `start` does,
// finish leaves together with all nodes. The composition root of the tensors face.
//
// Invariants:
//   TensorsRoot.H1. Nodes of this face speak our own protocol, whatever DMLC_PS_VAN_TYPE says: ps-lite's has no
//       parameters, and Hetu's files set p3 for its priorities, which are always on here. Only `van` as an option
//       counts.

import type { WaitOptions } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";
import type { FinalizeOptions } from "../cluster/cluster-node.ts";
import { TensorWorker } from "../faces/tensors/tensor-worker.ts";
import type { Role as AnyRole } from "../wire/node-id.ts";
import { loadNodeConfig } from "./cannot-start.ts";
import type { NodeConfigOptions, Role } from "./config/node-config.ts";
import { connectWorker } from "./connect.ts";
import { startRole } from "./start-role.ts";

/** A server or scheduler of a job, which can only be waited for. */
export type TensorNode = {
  /** What it is in the job. */
  readonly role: AnyRole;
  /** Its number within its role. */
  readonly rank: number;
  /** The error that ended the job, if one did. */
  readonly failure: WeighbridgeError | undefined;
  /** Leaves the job, by default when all other nodes do. */
  finalize(options?: FinalizeOptions): Promise<void>;
  /** Leaves the job at once. */
  close(): Promise<void>;
};

/**
 * Joins as a worker (Hetu: worker_init). Throws BAD_CONFIG in a process of another role, and what starting a node
 * throws.
 */
export async function workerInit(options: NodeConfigOptions = {}): Promise<TensorWorker> {
  const { role, ...own } = withOwnVan(options);
  if (role !== undefined && role !== "worker") throw otherRole("worker", role);
  return new TensorWorker(await connectWorker({ ...own, role }));
}

/** Leaves together with all other nodes (Hetu: worker_finish). */
export async function workerFinish(worker: TensorWorker, options: WaitOptions = {}): Promise<void> {
  await worker.finish(options);
}

/** Serves parameters from here on (Hetu: server_init). Otherwise as `workerInit`. */
export async function serverInit(options: NodeConfigOptions = {}): Promise<TensorNode> {
  return await startAs("server", options);
}

/** Serves until all workers are done (Hetu: server_finish). */
export async function serverFinish(server: TensorNode, options: WaitOptions = {}): Promise<void> {
  await server.finalize(options);
}

/** Hetu: scheduler_init. Otherwise as `workerInit`. */
export async function schedulerInit(options: NodeConfigOptions = {}): Promise<TensorNode> {
  return await startAs("scheduler", options);
}

/** Ends when all nodes have left (Hetu: scheduler_finish). */
export async function schedulerFinish(scheduler: TensorNode, options: WaitOptions = {}): Promise<void> {
  await scheduler.finalize(options);
}

async function startAs(role: Role, options: NodeConfigOptions): Promise<TensorNode> {
  const config = await loadNodeConfig({ options: withOwnVan(options), env: process.env });
  if (config.role === role) return await startRole(config);
  throw otherRole(role, config.role);
}

function otherRole(role: Role, own: Role): WeighbridgeError {
  return new WeighbridgeError("BAD_CONFIG", `${role}Init() is for a ${role}, and this process is a ${own} (DMLC_ROLE)`);
}

/** TensorsRoot.H1. */
function withOwnVan(options: NodeConfigOptions): NodeConfigOptions {
  return { van: "weighbridge", ...options };
}
