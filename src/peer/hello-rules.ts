// hello-rules — which hello a peer accepts, and with which error it refuses the others: by job and kind, and by the
// roster. Pure. A token is no proof against somebody who reads the network: links are neither encrypted nor authenticated.

import { WeighbridgeError } from "../base/errors.ts";
import { type Hello, jobConflict, jobNameOf } from "../wire/hello.ts";
import { nameOf, rankOf, roleOf } from "../wire/node-id.ts";
import type { RosterView } from "../wire/roster.ts";
import type { Channel } from "./channel.ts";

/** Of two links the other one counts; its dialer tries again, and finds that it has been reached meanwhile. */
export function dialsItself(dialer: number, dialed: number): WeighbridgeError {
  return new WeighbridgeError("NO_ROUTE", `${nameOf(dialer)} dials ${nameOf(dialed)} itself`, { retryable: true });
}

export function restartedError({ name }: Channel): WeighbridgeError {
  const message = `${name} was restarted; whether what it had not answered was applied is lost with it`;
  return new WeighbridgeError("NODE_DEAD", message, { retryable: true });
}

/** Nodes of two jobs do not talk, nor do those of two runs of one. Throws WRONG_JOB, and FENCED. */
export function checkJob(own: string, { job, kind, node }: Hello): void {
  const conflict = jobConflict(own, job);
  if (conflict === undefined) return;
  const [theirs, ours] = [jobNameOf(job), jobNameOf(own)];
  if (conflict === "name") {
    const fix =
      "give each job a scheduler of its own, and its nodes the right address (--scheduler-host, --scheduler-port) or name (--job)";
    const message = `a ${kind} of job "${theirs}" has come to a node of job "${ours}"; ${fix}`;
    throw new WeighbridgeError("WRONG_JOB", message, { retryable: node !== 0 }); // a node that has a rank goes on, and waits for the right scheduler
  }
  throw new WeighbridgeError(
    "FENCED",
    `job ${job} is not job ${own}: a node of an earlier run of "${ours}" dialed this one, or this address was reused`,
  );
}

/** Who dials us is of the kind that its number says, and names its job if it has a number (P6). Throws BAD_REQUEST. */
export function checkDialer({ node, kind, job }: Hello): void {
  const isKind = node === 0 ? kind !== "scheduler" : kind === roleOf(node);
  if (!isKind) throw new WeighbridgeError("BAD_REQUEST", `node ${node} says that it is a ${kind}, which it cannot be`);
  if (node !== 0 && job === "")
    throw new WeighbridgeError("BAD_REQUEST", `${nameOf(node)} does not say which job it belongs to; a node that has a place knows it`);
}

export type HelloRules = {
  /** Version 0: nobody has told us yet. */
  readonly roster: RosterView;
  readonly serverCount: number;
  readonly workerCount: number;
  /** False when nodes may have newer lives than the roster knows: on a scheduler that was restarted. */
  readonly isCertain: boolean;
};

/**
 * Throws NO_ROUTE for a node that is not in the job, and for an incarnation that it has not been given, or of which we have not heard yet; FENCED without the
 * token of the node of that incarnation. A token that is undefined is not asked for.
 */
export function checkMember(
  { node, incarnation, token }: Pick<Hello, "node" | "incarnation" | "token">,
  { roster, serverCount, workerCount, isCertain }: HelloRules,
): void {
  const entry = roster.nodes.find((candidate) => candidate.node === node);
  const isPlace = rankOf(node) < (roleOf(node) === "server" ? serverCount : workerCount);
  if (entry === undefined && (roster.version > 0 || !isPlace))
    // While we know of nobody, it may be our counts that are wrong: the node goes on, and waits for a scheduler that was started rightly.
    throw new WeighbridgeError("NO_ROUTE", `there is no node ${node} in this job`, { retryable: roster.version === 0 });
  if (entry?.incarnation === incarnation && token !== undefined && entry.token !== undefined && token !== entry.token) {
    const message = `this is not ${nameOf(node)} of incarnation ${incarnation}: its hello does not show the token that ${nameOf(node)} registered with`;
    throw new WeighbridgeError("FENCED", message);
  }
  if (entry === undefined || incarnation <= entry.incarnation || !isCertain) return;
  const message = `${nameOf(node)} says that it has incarnation ${incarnation}, but here incarnation ${entry.incarnation} is the newest known`;
  throw new WeighbridgeError("NO_ROUTE", message, { retryable: true });
}
