// scheduler-status — what `weighbridge status` shows of a job: the scheduler's view, put together from its parts.

import type { Peer } from "../peer/peer.ts";
import type { StatusReply } from "../wire/control.ts";
import { jobNameOf } from "../wire/hello.ts";
import type { ClusterCounts } from "./applicant.ts";
import type { PendingRegistration } from "./pending-registrations.ts";
import type { Roster } from "./roster.ts";
import type { StateJournal } from "./state-journal.ts";

export type StatusSources = {
  readonly counts: ClusterCounts;
  readonly peer: Peer;
  readonly journal: StateJournal;
  readonly roster: Roster<PendingRegistration>;
  /** The nodes that stand at the last barrier. */
  readonly leaving: ReadonlySet<number>;
  readonly startedAtMs: number;
};

export function schedulerStatus({ counts, peer, journal, roster, leaving, startedAtMs }: StatusSources, nowMs: number): StatusReply {
  const { workerCount, replicas = 1 } = counts;
  const { job, phase } = roster;
  const { placement } = journal.state;
  const { epoch } = placement ?? {};
  const serverCount = (phase === "running" ? placement?.servers.length : undefined) ?? counts.serverCount;
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
    ...(roster.guests.size === 0 ? {} : { guests: roster.guests.status(nowMs) }),
  };
}
