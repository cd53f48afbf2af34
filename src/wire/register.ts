// register — a node asks the scheduler for its place, and is told it, with everybody else's, once the cluster is complete.
// After a scheduler's restart the nodes register again with the place they had (`resume`): their memory is the scheduler's.

import { type Check, count, flag, object, optional, text } from "./json-body.ts";
import { type Role, roleShape } from "./node-id.ts";
import { type RosterView, rosterShape } from "./roster.ts";

export type RegisterRequest = {
  readonly role: Role;
  /** The rank asked for; left out, any free one will do. */
  readonly rank: number | undefined;
  /** Where this node listens. */
  readonly address: string;
  readonly serverCount: number;
  readonly workerCount: number;
  /** A person's name for the node, host and process id by default. */
  readonly label: string;
  /** One per process that registers: the same token again is the same node, whose answer was lost. */
  readonly token: string;
  /** Left out by a node that has no place yet. */
  readonly resume: ResumeClaim | undefined;
};

/** The place a node has, and everybody else's as it last heard, for a scheduler that knows nothing any more. */
export type ResumeClaim = { readonly job: string; readonly node: number; readonly incarnation: number; readonly roster: RosterView };

export const registerRequestShape: Check<RegisterRequest> = object({
  role: roleShape,
  rank: optional(count),
  address: text,
  serverCount: count,
  workerCount: count,
  label: text,
  token: text,
  resume: optional(object({ job: text, node: count, incarnation: count, roster: rosterShape })),
});

export type RegisterReply = {
  readonly job: string;
  readonly node: number;
  readonly incarnation: number;
  /** True when this node takes over a place that another one had before it. */
  readonly recovery: boolean;
  readonly heartbeatIntervalMs: number;
  readonly heartbeatTimeoutMs: number;
  readonly roster: RosterView;
};

export const registerReplyShape: Check<RegisterReply> = object({
  job: text,
  node: count,
  incarnation: count,
  recovery: flag,
  heartbeatIntervalMs: count,
  heartbeatTimeoutMs: count,
  roster: rosterShape,
});
