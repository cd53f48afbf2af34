// resume-claims — what is wrong with the claim of a node that registers after a restart of the scheduler. Pure; what
// follows from it is the roster's (roster.ts).

import { WeighbridgeError } from "../base/errors.ts";
import { jobNameOf } from "../wire/hello.ts";
import { nameOf } from "../wire/node-id.ts";
import type { RegisterRequest, ResumeClaim } from "../wire/register.ts";
import type { RankSlot } from "./rank-slot.ts";
import type { SchedulerState } from "./scheduler-state.ts";

/** Whether a node knows more than the state that was found: something that a scheduler sent it is missing. */
export function isBehind({ incarnations, placement: own }: SchedulerState, { roster: { nodes, placement } }: ResumeClaim): boolean {
  const isNewer = nodes.some(({ node, incarnation }) => incarnation > (incarnations.get(node) ?? 0));
  return isNewer || (placement?.epoch ?? 0) > (own?.epoch ?? 0);
}

/** Two processes cannot be one node in one incarnation: the one that is confirmed stays. */
export function isAnother({ incarnation, confirmed, token }: RankSlot, request: RegisterRequest, claim: ResumeClaim): boolean {
  return confirmed && incarnation === claim.incarnation && token !== request.token;
}

/** Retryable: the nodes wait for a scheduler that has the state. */
export function tooOld({ label }: RegisterRequest, { node }: ResumeClaim): WeighbridgeError {
  const message = `${nameOf(node)} ("${label}") knows more than this scheduler's state, and replicated servers would lose what was decided since`;
  const advice = "start a scheduler that has the newest state (--state-dir, --etcd), or end the nodes of the earlier run";
  return new WeighbridgeError("STATE_CORRUPT", `${message}; ${advice}`, { retryable: true });
}

/** Retryable: the node waits for a scheduler of its own job. */
export function otherJob({ label }: RegisterRequest, { job, node }: ResumeClaim, ownJob: string): WeighbridgeError {
  const message = `${nameOf(node)} ("${label}") belongs to job "${jobNameOf(job)}", but this scheduler runs job "${jobNameOf(ownJob)}"`;
  return new WeighbridgeError("WRONG_JOB", message, { retryable: true });
}

export function otherRun({ label }: RegisterRequest, { job, node }: ResumeClaim, ownJob: string): WeighbridgeError {
  return new WeighbridgeError("FENCED", `${nameOf(node)} ("${label}") belongs to job ${job}, but this scheduler runs job ${ownJob}`);
}

/** Another process serves the rank whose state this one has from a disk. */
export function stillThere({ label }: RegisterRequest, { node, label: holder }: RankSlot): WeighbridgeError {
  const message = `"${label}" has the state of ${nameOf(node)} on its disk, but "${holder}" holds that rank and lives`;
  return new WeighbridgeError("RANK_TAKEN", message);
}

export function fenced(node: number, incarnation: number, slot: RankSlot | undefined): WeighbridgeError {
  const reason = slot === undefined ? "is not in this job" : `was replaced by "${slot.label}" (incarnation ${slot.incarnation})`;
  return new WeighbridgeError("FENCED", `${nameOf(node)} of incarnation ${incarnation} ${reason}`);
}

/** A standby that was given up speaks. */
export function givenUp({ node, incarnation, label }: RankSlot): WeighbridgeError {
  const message = `${nameOf(node)} ("${label}") of incarnation ${incarnation} was given up: its server goes on without it`;
  return new WeighbridgeError("FENCED", message);
}
