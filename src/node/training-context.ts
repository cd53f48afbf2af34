// training-context — the process's one PsContext, and the session that it describes. The composition root of the training face.

import type { Session } from "../api/session.ts";
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
 * Joins the cluster of the context, the environment (MS_*, DMLC_* and our own) and the configuration file as a worker (MindSpore: communication.init). Undefined
 * when parameter-server mode is off: models are then trained alone. Throws what `connect` throws.
 */
export async function initTraining(): Promise<Session | undefined> {
  return context.get("enablePs") ? await connect(context.nodeOptions) : undefined;
}
