// scaling-text — changes of the servers in words, for `weighbridge status` and `weighbridge scale`. Pure.

import { outputNameOf } from "../node/output-name.ts";
import { idOf, type Role } from "../wire/node-id.ts";
import type { ScalingEnd, ScalingReport, ScalingView, WorkersEnd, WorkersReport } from "../wire/scaling.ts";
import { countText, durationText, number } from "./terminal-text.ts";

const OUTCOMES = { done: "is done", rolledBack: "was rolled back", failed: "has failed" };

/** The change under way: "change 3, 2 servers to 4: waiting for server 2, server 3, 48.0 s left". */
export function changeText(view: ScalingView): string {
  const { from, to } = view;
  return `change ${view.number}, ${countText(from.length, "server")} to ${to.length}: ${stepText(view)}`;
}

function stepText(view: ScalingView): string {
  const { step, waitMs = 0, parts, moved = 0, from, to } = view;
  const progress = parts === undefined ? "" : `, ${number(moved)} of ${number(parts)}`;
  switch (step) {
    case "waiting":
      return `waiting for ${awaitedText(view)}, ${durationText(waitMs)} left`;
    case "moving":
      return `moving parts${progress}`;
    case "rollingBack":
      return `taking it back${progress}`;
    case "leaving":
      return `${namesText(from.filter((rank) => !to.includes(rank)))} leaving`;
  }
}

/**
 * Of replicated servers with their number of processes: "server 2, standby 2 (2 processes), standby 3 to be filled".
 */
function awaitedText({ awaited, awaitedStandbys, fillingStandbys = [] }: ScalingView): string {
  if (awaitedStandbys === undefined) return namesText(awaited);
  const names = [...namesOf("server", awaited), ...namesOf("standby", awaitedStandbys)];
  const coming = names.length === 0 ? [] : [`${names.join(", ")} (${names.length} process${names.length === 1 ? "" : "es"})`];
  const filling = fillingStandbys.length === 0 ? [] : [`${namesOf("standby", fillingStandbys).join(", ")} to be filled`];
  return [...coming, ...filling].join(", ") || namesText([]);
}

/** How a change ended: "change 3 was rolled back: …". */
export function endText({ number: change, outcome, reason }: ScalingEnd): string {
  return `change ${change} ${OUTCOMES[outcome]}${reason === undefined ? "" : `: ${reason}`}`;
}

/** What `status` says of changes beside its table; the last one only if it did not do what was asked. */
export function scalingLines({ current, queued, ended, workers }: ScalingReport): string[] {
  const ofWorkers = workers === undefined ? [] : workersLines(workers);
  const last = ended.at(-1);
  const waiting = queued.length === 0 ? "" : `; ${countText(queued.length, "more change")} will follow`;
  if (current !== undefined) return [`${changeText(current)}${waiting}`, ...ofWorkers];
  return last === undefined || last.outcome === "done" ? ofWorkers : [endText(last), ...ofWorkers];
}

function workersLines(workers: WorkersReport): string[] {
  if (workers.wishedCount !== undefined) return [workersText(workers)];
  return workers.ended === undefined || workers.ended.outcome === "done" ? [] : [workersEndText(workers.ended)];
}

/** How a change of the workers ended: "the change of the workers was rolled back: …". */
export function workersEndText({ outcome, reason }: WorkersEnd): string {
  return `the change of the workers ${OUTCOMES[outcome]}${reason === undefined ? "" : `: ${reason}`}`;
}

/** "2 of 5 workers: waiting for 3, 48.0 s left", "3 workers: worker 3, worker 4 leaving", "5 workers". */
export function workersText(report: WorkersReport): string {
  const { presentCount, wishedCount = presentCount, leaving, waitMs, isBack = false } = report;
  const missing = wishedCount - presentCount;
  const counts = missing > 0 ? `${presentCount} of ${countText(wishedCount, "worker")}` : countText(presentCount, "worker");
  const leavers = leaving.length === 0 ? [] : [`${leaving.map((rank) => outputNameOf(idOf("worker", rank))).join(", ")} leaving`];
  const left = waitMs === undefined ? "" : `, ${durationText(waitMs)} left`;
  const waiting = missing > 0 && !isBack ? [`waiting for ${missing}${left}`] : [];
  const steps = [...(isBack ? ["taking it back"] : []), ...waiting, ...leavers].join(", ");
  return steps === "" ? counts : `${counts}: ${steps}`;
}

function namesText(ranks: readonly number[]): string {
  return ranks.length === 0 ? "servers" : namesOf("server", ranks).join(", ");
}

function namesOf(role: Role, ranks: readonly number[]): readonly string[] {
  return ranks.map((rank) => outputNameOf(idOf(role, rank)));
}
