// training-context — the process's one PsContext, and the session that it describes. The composition root of the
// training face.

import type { Session } from "../api/session.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { loadNodeConfig } from "./cannot-start.ts";
import { connect } from "./connect.ts";
import { PsContext, type PsContextKey, type PsContextValues } from "./ps-context.ts";

const context = new PsContext();

/** MindSpore: context.set_ps_context. Throws BAD_CONFIG, UNSUPPORTED. */
export function setPsContext(values: Partial<PsContextValues>): void {
  context.set(values);
}

/** MindSpore: context.get_ps_context. Throws BAD_CONFIG. */
export function getPsContext<K extends PsContextKey>(key: K): PsContextValues[K] {
  return context.get(key);
}

/** MindSpore: context.reset_ps_context. */
export function resetPsContext(): void {
  context.reset();
}

/**
 * Runs the role of this process in the cluster of the context, the environment (MS_*, DMLC_* and our own) and the
 * configuration file (MindSpore: communication.init). A worker gets its session. The scheduler and servers serve until
 * all nodes have left, and then the process exits: one script has all three roles, and nothing after this call runs in
 * the other two. Returns undefined if parameter-server mode is off: models are then trained alone. Throws what
 * `connect` throws; as the scheduler or a server, also the error that ended the job.
 */
export async function initTraining(): Promise<Session | undefined> {
  if (!context.get("enablePs")) return undefined;
  const { nodeOptions } = context;
  const config = await loadNodeConfig({ options: nodeOptions, env: process.env });
  if (config.role === "worker") return await connect(nodeOptions);
  if (config.role === "server" && config.threads > 1) {
    const text = `a process that calls initTraining() is one server, not ${config.threads} on threads: start those with weighbridge server`;
    throw new WeighbridgeError("BAD_CONFIG", text);
  }
  // Loaded on demand: a worker needs neither.
  if (config.role === "scheduler") await (await import("./run-scheduler.ts")).runScheduler(config);
  else await (await import("./run-server.ts")).runServer(config, []);
  process.exit();
}
