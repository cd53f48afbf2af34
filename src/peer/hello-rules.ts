// hello-rules — which hello a peer takes, whatever channel it is for, and what it says to one that it does not take. Pure. Whether the roster knows the node: hello-check.ts.

import { WeighbridgeError } from "../base/errors.ts";
import type { Hello } from "../wire/hello.ts";
import { jobConflict, jobNameOf } from "../wire/job-id.ts";
import { nameOf, roleOf } from "../wire/node-id.ts";
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
    throw new WeighbridgeError("WRONG_JOB", message, { retryable: node !== 0 }); // who has a place goes on, and waits for the right scheduler
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
