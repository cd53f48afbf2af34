// training-context — the process's one PsContext, and the session that it describes. The composition root of the
// training face.

import type { Session } from "../api/session.ts";
import { PsContext, type PsContextKey, type PsContextValues } from "./ps-context.ts";
import { sessionOfRole } from "./session-of-role.ts";

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
 * the other two. If these cannot start, or the job fails, they print the error in a line and exit with 1. Returns
 * undefined if parameter-server mode is off: models are then trained alone. Throws what `connect` throws.
 */
export async function initTraining(): Promise<Session | undefined> {
  if (!context.get("enablePs")) return undefined;
  return await sessionOfRole(context.nodeOptions, { name: "initTraining()", fix: "start those with weighbridge server" });
}
