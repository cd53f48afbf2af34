// scheduler-status — what `weighbridge status` shows of a job: the scheduler's view, put together from its parts.

import type { Peer } from "../peer/peer.ts";
import type { StatusReply } from "../wire/control.ts";
import { jobNameOf } from "../wire/hello.ts";
import { roleOf } from "../wire/node-id.ts";
import type { ClusterCounts } from "./applicant.ts";
import type { PendingRegistration } from "./pending-registrations.ts";
import type { Roster } from "./roster.ts";
import type { SchedulerOptions } from "./scheduler-options.ts";
import type { SchedulerState } from "./scheduler-state.ts";
import type { StateJournal } from "./state-journal.ts";
import type { Tools } from "./tools.ts";

export type StatusSources = {
  readonly counts: ClusterCounts & Pick<SchedulerOptions, "serves">;
  readonly peer: Peer;
  readonly journal: StateJournal;
  readonly roster: Roster<PendingRegistration>;
  /** The nodes that stand at the last barrier. */
  readonly leaving: ReadonlySet<number>;
  readonly tools: Tools;
  readonly startedAtMs: number;
};

export function schedulerStatus(sources: StatusSources, nowMs: number): StatusReply {
  const { counts, peer, journal, roster, leaving, tools, startedAtMs } = sources;
  const { replicas = 1 } = counts;
  const { job, phase } = roster;
  const workerCount = phase === "forming" ? Math.max(counts.workerCount, knownWorkers(journal.state)) : counts.workerCount;
  const { placement } = journal.state;
  const { epoch } = placement ?? {};
  // Those that have parts, also of a job whose nodes have not resumed yet, and those that have come to get some.
  const here = roster.view().nodes.filter(({ role, state, isRetired }) => role === "server" && state === "alive" && isRetired !== true);
  const servers = new Set([...(placement?.servers ?? []), ...here.map(({ rank }) => rank)]);
  const serverCount = servers.size > 0 ? servers.size : counts.serverCount;
  const doubt = roster.doubt(nowMs);
  const guests = [...roster.guests.status(nowMs), ...tools.status(nowMs)];
  return {
    ...{ job: jobNameOf(job), phase, serverCount, workerCount },
    ...(replicas === 1 ? {} : { replicas }),
    ...(epoch === undefined ? {} : { epoch }),
    uptimeMs: Math.round(nowMs - startedAtMs),
    term: peer.incarnation,
    ...(journal.standbys.length === 0 ? {} : { standbys: journal.standbys }),
    ...(peer.packageVersion === "" ? {} : { packageVersion: peer.packageVersion }),
    nodes: roster.status(nowMs),
    waiting: roster.waiting(),
    ...(leaving.size === 0 ? {} : { leaving: [...leaving] }),
    ...(doubt === undefined ? {} : { silence: { of: doubt.of, forMs: Math.round(nowMs - doubt.silentSinceMs) } }),
    ...(counts.serves === true ? { serves: true } : {}),
    ...(guests.length === 0 ? {} : { guests }),
  };
}

/** Of a job whose nodes have not resumed yet: how many were asked for last, or had come. */
function knownWorkers({ workers, workersAsked, incarnations }: SchedulerState): number {
  return workers?.count ?? workersAsked ?? [...incarnations.keys()].filter((node) => roleOf(node) === "worker").length;
}
