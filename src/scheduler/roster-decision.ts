// roster-decision — what the roster decides (roster.ts), for scheduler.ts to carry out in order, and the rules it
// decides by.

import type { WeighbridgeError } from "../base/errors.ts";
import type { PlacementView } from "../wire/roster.ts";
import type { ClusterCounts } from "./applicant.ts";
import type { Audience } from "./rank-slots.ts";

export type RosterRules = ClusterCounts & {
  /** 0: nodes send no heartbeats. */
  readonly heartbeatIntervalMs: number;
  /** 0: only a closed link shows a death. */
  readonly heartbeatTimeoutMs: number;
  readonly startTimeoutMs: number;
  /** How the servers of a new job share its parts; a running job keeps its placement. Defaults to "ring". */
  readonly placement?: PlacementView["policy"] | undefined;
  /** The time of day, in ms, for what is told of events before this scheduler. Defaults to the time of its clock. */
  readonly dateMs?: (() => number) | undefined;
};

export type Decision<T> =
  | { readonly kind: "admit"; readonly caller: T; readonly node: number; readonly incarnation: number; readonly recovery: boolean }
  | { readonly kind: "refuse"; readonly caller: T; readonly error: WeighbridgeError }
  /** It waits for a rank that there is not: all of so many servers are there. */
  | { readonly kind: "spare"; readonly caller: T; readonly serverCount: number }
  /** The cluster is there: nodes may be answered and the job has its id. */
  | { readonly kind: "run" }
  /** An incarnation of this node is over; `isPlanned`: a server was stopped. */
  | { readonly kind: "died"; readonly node: number; readonly isPlanned?: boolean }
  /** This node asked to leave unless it is needed, and stays (Chains.C4). */
  | { readonly kind: "needed"; readonly node: number }
  /** A standby holds this server's rank from now on; `isPlanned`: the head before was stopped, and hands over. */
  | { readonly kind: "promoted"; readonly node: number; readonly incarnation: number; readonly label: string; readonly isPlanned: boolean }
  /** Publish to everybody alive, or, if only guests have come or gone, to servers alone. */
  | { readonly kind: "publish"; readonly to: Audience }
  /** This guest is forgotten: its conversation ends. */
  | { readonly kind: "dismiss"; readonly node: number; readonly error: WeighbridgeError }
  /** The state of an earlier run is not used, for this reason. */
  | { readonly kind: "setAside"; readonly job: string; readonly reason: string }
  /** A node knows more than the state that was found. */
  | { readonly kind: "outdated"; readonly node: number }
  /** The job cannot go on. */
  | { readonly kind: "fail"; readonly error: WeighbridgeError }
  /** Everybody has left, or is dead and has nobody to come back to. */
  | { readonly kind: "finish" };
