// scheduler-status — what `weighbridge status` shows of a job: the scheduler's view, put together from its parts.

import type { Peer } from "../peer/peer.ts";
import type { StatusReply } from "../wire/control.ts";
import { jobNameOf } from "../wire/hello.ts";
import type { ClusterCounts } from "./applicant.ts";
import type { PendingRegistration } from "./pending-registrations.ts";
import type { Roster } from "./roster.ts";
import type { StateJournal } from "./state-journal.ts";
import type { Tools } from "./tools.ts";

export type StatusSources = {
  readonly counts: ClusterCounts;
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
  const { workerCount, replicas = 1 } = counts;
  const { job, phase } = roster;
  const { placement } = journal.state;
  const { epoch } = placement ?? {};
  const serverCount = (phase === "running" ? placement?.servers.length : undefined) ?? counts.serverCount;
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
    ...(guests.length === 0 ? {} : { guests }),
  };
}
