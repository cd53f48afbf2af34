// decision-log — what the scheduler's log says of decisions of the roster, in words for people. Decides nothing.

import type { Log } from "../base/log.ts";
import { nameOf, roleOf } from "../wire/node-id.ts";
import type { Decision } from "./roster-decision.ts";
import type { SchedulerOptions } from "./scheduler-options.ts";
import type { Doubt } from "./silence-verdicts.ts";

const BUSY_WORDS = "the loop of a node is busy, and its process runs: it is waited for";

type Of<K extends Decision<unknown>["kind"]> = Decision<unknown> & { readonly kind: K };

/** For decisions of which nothing follows but a line. */
export function logDecision(
  options: Pick<SchedulerOptions, "log" | "dateMs" | "loopTimeoutMs">,
  decision: Of<"busy" | "turns" | "doubts" | "doubtEnded" | "needed" | "promoted">,
  nowMs: number,
): void {
  const { log } = options;
  switch (decision.kind) {
    case "busy":
    case "turns":
      logLoop(log, decision, options.loopTimeoutMs ?? 0);
      break;
    case "doubts":
      logDoubt(options, decision.doubt, nowMs);
      break;
    case "doubtEnded":
      log.info("a node is heard again: nodes have the heartbeat timeout to be heard before one is taken for dead");
      break;
    case "needed":
      logNeeded(log, decision);
      break;
    case "promoted":
      logPromotion(log, decision);
      break;
  }
}

export function logRun(log: Log, { lacking }: Of<"run">, { job, nodes }: { readonly job: string; readonly nodes: number }): void {
  log.info("the cluster is complete", { job, nodes });
  if (lacking.length === 0) return;
  const missing = lacking.map(nameOf).join(", ");
  log.warn(`the job starts with one copy of some servers, ${missing} is missing: start another copy, which is filled`);
}

function logLoop(log: Log, decision: Of<"busy"> | Of<"turns">, loopTimeoutMs: number): void {
  const fields = { node: nameOf(decision.node), busyMs: Math.round(decision.busyMs) };
  const isGivenUp = decision.kind === "busy" && roleOf(decision.node) !== "worker" && loopTimeoutMs > 0;
  if (decision.kind === "turns") log.warn("the loop of a node turns again", fields);
  else log.warn(BUSY_WORDS, isGivenUp ? { ...fields, givenUpAfterMs: loopTimeoutMs } : fields);
}

export function logDied(log: Log, { node, isPlanned = false }: Of<"died">): void {
  if (isPlanned) log.info("a server was stopped", { node: nameOf(node) });
  else log.warn("a node is dead", { node: nameOf(node) });
}

function logNeeded(log: Log, { node }: Of<"needed">): void {
  log.info("a server that is stopped stays until it has saved its state, which no other process has", { node: nameOf(node) });
}

export function logOutdated(log: Log, { node }: Of<"outdated">, state: string): void {
  log.warn("the scheduler's state is older than what a node knows, whose knowledge counts", { node: nameOf(node), state });
}

export function logUnclosed(log: Log, { node, isAwaited, exitCode }: Of<"unclosed">): void {
  const what = isAwaited ? "its rank is kept for the next process" : "its rank is not waited for";
  const how = exitCode === 0 ? "without session.close()" : `with exit code ${exitCode}, without session.close()`;
  log.warn(`${nameOf(node)} ended ${how}: ${what}`);
}

function logDoubt({ log, dateMs }: Pick<SchedulerOptions, "log" | "dateMs">, { of, silentSinceMs }: Doubt, nowMs: number): void {
  const silentMs = Math.round(nowMs - silentSinceMs);
  const since = dateMs === undefined ? {} : { since: new Date(dateMs() - silentMs).toISOString() };
  const whom = of === "all" ? "no node has been heard" : "most nodes fell silent together";
  log.warn(`${whom}: this scheduler may be cut off, and takes no node for dead for now`, { silentMs, ...since });
}

function logPromotion(log: Log, { node, incarnation, label, isPlanned }: Of<"promoted">): void {
  const fields = { node: nameOf(node), incarnation, label };
  if (isPlanned) log.info("a server hands over to its standby", fields);
  else log.warn("a standby takes over", fields);
}
