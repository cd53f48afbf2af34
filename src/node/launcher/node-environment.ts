// node-environment — what a launched process finds in its environment: its whole configuration, and the variables by which programs
// written for ps-lite and Hetu learn who they are.

import { tmpdir } from "node:os";
import { join } from "node:path";
import { configToEnvironment } from "../config/config-environment.ts";
import type { NodeConfig } from "../config/node-config.ts";

export type Environment = Readonly<Record<string, string>>;

export function nodeEnvironment(config: NodeConfig): Environment {
  return { ...configToEnvironment(config), ...dmlcVariables(config), ...compileCache() };
}

function dmlcVariables({ role, rank, serverCount, workerCount, schedulerHost, schedulerPort }: NodeConfig): Environment {
  const common = {
    DMLC_ROLE: role,
    DMLC_NUM_SERVER: String(serverCount),
    DMLC_NUM_WORKER: String(workerCount),
    DMLC_PS_ROOT_URI: schedulerHost,
    DMLC_PS_ROOT_PORT: String(schedulerPort),
  };
  if (role === "scheduler" || rank === undefined) return common;
  return { ...common, DMLC_RANK: String(rank), [role === "server" ? "SERVER_ID" : "WORKER_ID"]: String(rank) };
}

/** Processes of a job load the same modules; the second one to do so need not compile them. Halves the time a node takes to start. */
function compileCache(): Environment {
  const { NODE_COMPILE_CACHE, NODE_DISABLE_COMPILE_CACHE } = process.env;
  if (NODE_COMPILE_CACHE !== undefined || NODE_DISABLE_COMPILE_CACHE !== undefined) return {};
  return { NODE_COMPILE_CACHE: join(tmpdir(), "node-compile-cache") };
}
