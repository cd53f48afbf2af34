// roster-decision — what the roster decides (roster.ts), for scheduler.ts to carry out in order, and the rules it
// decides by.

import type { WeighbridgeError } from "../base/errors.ts";
import type { PlacementView } from "../wire/roster.ts";
import type { ClusterCounts } from "./applicant.ts";
import type { Audience } from "./rank-slots.ts";
import type { Doubt } from "./silence-verdicts.ts";

export type RosterRules = ClusterCounts & {
  /** 0: nodes send no heartbeats. */
  readonly heartbeatIntervalMs: number;
  /** 0: only a closed link shows a death. */
  readonly heartbeatTimeoutMs: number;
  readonly startTimeoutMs: number;
  /** How long the loop of a server may be busy before it is replaced, or dead; 0: for as long as it likes. */
  readonly loopTimeoutMs?: number | undefined;
  /** Whether `serverGone` is told when nothing listens at the address of a server. Left out: it is not. */
  readonly probesServers?: boolean | undefined;
  /** Whether all nodes have passed the barrier of the start. Left out: there is none. */
  readonly hasStarted?: (() => boolean) | undefined;
  /** Whether the job goes on when no worker is left. */
  readonly serves?: boolean | undefined;
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
  /** The cluster is there, but for these copies: nodes may be answered and the job has its id. */
  | { readonly kind: "run"; readonly lacking: readonly number[] }
  /**
   * An incarnation of this node is over; `isPlanned`: a server was stopped. `goesOn`: its rank does, with the other
   * copy.
   */
  | { readonly kind: "died"; readonly node: number; readonly isPlanned?: boolean; readonly goesOn?: boolean }
  /** The pulse of this node says that its loop is busy, for long. */
  | { readonly kind: "busy"; readonly node: number; readonly busyMs: number }
  /** The loop of this node, of which that was told, turns again. */
  | { readonly kind: "turns"; readonly node: number; readonly busyMs: number }
  /** The process of this worker ends, its session is not closed; `isAwaited`: another one comes for its rank. */
  | { readonly kind: "unclosed"; readonly node: number; readonly isAwaited: boolean; readonly exitCode: number }
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
  /** Many nodes are silent: the scheduler suspects itself (silence-verdicts.ts). */
  | { readonly kind: "doubts"; readonly doubt: Doubt }
  /** A node was heard, which ends this doubt. */
  | { readonly kind: "doubtEnded"; readonly doubt: Doubt }
  /** A node knows more than the state that was found. */
  | { readonly kind: "outdated"; readonly node: number }
  /** The job cannot go on. */
  | { readonly kind: "fail"; readonly error: WeighbridgeError }
  /** Everybody has left, or is dead and has nobody to come back to. */
  | { readonly kind: "finish" };

export function doubtEnded<T>(doubt: Doubt | undefined): Decision<T>[] {
  return doubt === undefined ? [] : [{ kind: "doubtEnded", doubt }];
}
