// hello-rules — which hello a peer accepts, and with which error it refuses the others: by job and kind, and by the
// roster. Pure. A token is no proof against somebody who reads the network: links are neither encrypted nor
// authenticated.

import { badRequest, WeighbridgeError } from "../base/errors.ts";
import { type Hello, jobConflict, jobNameOf } from "../wire/hello.ts";
import { nameOf, rankOf, roleOf, SCHEDULER_ID } from "../wire/node-id.ts";
import type { RosterView } from "../wire/roster.ts";
import type { Channel } from "./channel.ts";

/** The other one of two links counts; this one's dialer tries again, and finds that it was reached meanwhile. */
export function dialsItself(dialer: number, dialed: number): WeighbridgeError {
  return new WeighbridgeError("NO_ROUTE", `${nameOf(dialer)} dials ${nameOf(dialed)} itself`, { retryable: true });
}

export function replacedError(node: number, incarnation: number, newer: number): WeighbridgeError {
  return new WeighbridgeError("FENCED", `${nameOf(node)} was replaced by a newer one (incarnation ${newer}, this is ${incarnation})`);
}

export function restartedError({ name }: Channel): WeighbridgeError {
  const message = `${name} was restarted; whether what it had not answered was applied is lost with it`;
  return new WeighbridgeError("NODE_DEAD", message, { retryable: true });
}

/** For what a node without a number had open with the scheduler (Peer.P9). */
export function unlinkedError({ name }: Channel): WeighbridgeError {
  const message = `the link to ${name} broke; whether what it had not answered was applied is not known`;
  return new WeighbridgeError("NODE_DEAD", message, { retryable: true });
}

/** Nodes of two jobs do not talk, nor do nodes of two runs of one job. Throws WRONG_JOB, and FENCED. */
export function checkJob(own: string, { job, kind, node }: Hello): void {
  const conflict = jobConflict(own, job);
  if (conflict === undefined) return;
  const [theirs, ours] = [jobNameOf(job), jobNameOf(own)];
  if (conflict === "name") {
    const fix =
      "give each job a scheduler of its own, and its nodes the right address (--scheduler-host, --scheduler-port) or name (--job)";
    const message = `a ${kind} of job "${theirs}" has come to a node of job "${ours}"; ${fix}`;
    // one with a rank waits for its scheduler
    throw new WeighbridgeError("WRONG_JOB", message, { retryable: node !== 0 });
  }
  throw new WeighbridgeError(
    "FENCED",
    `job ${job} is not job ${own}: a node of an earlier run of "${ours}" dialed this one, or this address was reused`,
  );
}

/**
 * Throws BAD_REQUEST unless a dialer is of the kind that its number says, and one with a number names its job
 * (Peer.P6). A pulse has the number of its node.
 */
export function checkDialer({ node, kind, job }: Hello): void {
  const isKind =
    node === 0 ? kind !== "scheduler" && kind !== "pulse" : kind === roleOf(node) || (kind === "pulse" && node !== SCHEDULER_ID);
  if (!isKind) throw badRequest(`node ${node} claims to be a ${kind}, which it cannot be`);
  if (node !== 0 && job === "") throw badRequest(`${nameOf(node)} does not name its job; a node that has a rank knows it`);
}

export type HelloRules = {
  /** Version 0: we have received none yet. */
  readonly roster: RosterView;
  readonly serverCount: number;
  readonly workerCount: number;
  /** False when nodes may have newer incarnations than the roster knows: on a restarted scheduler. */
  readonly isCertain: boolean;
  /** Whether nodes may have joined of which the roster does not know yet. */
  readonly mayGrow?: boolean;
};

/**
 * Throws NO_ROUTE for a node that is not in the job, and for an incarnation that we do not know; FENCED if the token is
 * not that of the node's incarnation. A token that is undefined is not checked.
 */
export function checkMember(
  { node, incarnation, token }: Pick<Hello, "node" | "incarnation" | "token">,
  { roster, serverCount, workerCount, isCertain, mayGrow = false }: HelloRules,
): void {
  const entry = roster.nodes.find((candidate) => candidate.node === node);
  const isRank = rankOf(node) < (roleOf(node) === "worker" ? workerCount : serverCount);
  // While our roster is empty our counts may be wrong: the node goes on and waits for a scheduler that knows it. A
  // restarted scheduler may have its roster from a node that had not heard of this one.
  if (entry === undefined && ((roster.version > 0 && isCertain) || !isRank))
    throw new WeighbridgeError("NO_ROUTE", `there is no node ${node} in this job`, { retryable: roster.version === 0 || mayGrow });
  if (entry?.incarnation === incarnation && token !== undefined && entry.token !== undefined && token !== entry.token) {
    const message = `this is not ${nameOf(node)} of incarnation ${incarnation}: its hello has another token than the one it registered with`;
    throw new WeighbridgeError("FENCED", message);
  }
  if (entry === undefined || incarnation <= entry.incarnation || !isCertain) return;
  const message = `${nameOf(node)} claims incarnation ${incarnation}, but the newest known here is ${entry.incarnation}`;
  throw new WeighbridgeError("NO_ROUTE", message, { retryable: true });
}
