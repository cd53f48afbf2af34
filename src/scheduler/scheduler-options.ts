// scheduler-options — what a scheduler is made with (scheduler.ts).

import type { Clock } from "../base/clock.ts";
import type { Log } from "../base/log.ts";
import type { Peer } from "../peer/peer.ts";
import type { Transport } from "../transport/transport.ts";
import type { SchedulerPulse } from "../wire/register.ts";
import type { PlacementView, RosterView } from "../wire/roster.ts";
import type { DeadNodeWaitOptions } from "./dead-node-wait.ts";
import type { WishedServers } from "./scaling.ts";
import type { StateRecord } from "./scheduler-state.ts";
import type { StateStore } from "./state-store.ts";

/**
 * What listeners of a scheduler see. `isEnding`: the job ends, and its nodes leave. `unheard`: other nodes say of these
 * that they live, and a restarted scheduler has not heard them yet.
 */
export type ScheduledRoster = RosterView & { readonly isEnding?: boolean | undefined; readonly unheard?: readonly number[] | undefined };

export type SchedulerOptions = {
  /** Ours alone: its id, job and events are set here. */
  readonly peer: Peer;
  /** To find out whether a process is gone (server-probe.ts). */
  readonly transport?: Pick<Transport, "connect"> | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly serverCount: number;
  readonly workerCount: number;
  /** How many workers there may be at most; defaults to `workerCount`. */
  readonly workerCountMax?: number | undefined;
  /** By how many processes each server rank is held: 1, or 2 for a head and a standby. Defaults to 1. */
  readonly replicas?: number | undefined;
  /** Whether servers may come and leave while the job runs. Defaults to true. */
  readonly mayScale?: boolean | undefined;
  /** Called with the servers that there are to be, when they change, for whoever starts processes. */
  readonly onServers?: ((servers: WishedServers) => void) | undefined;
  /** Called with the ranks of the workers that there are to be, when somebody asks for another number of them. */
  readonly onWorkers?: ((ranks: readonly number[]) => void) | undefined;
  /**
   * Whether the job serves on when no worker is left: its servers stay until `endServing`, and its workers leave
   * without them. Defaults to false.
   */
  readonly serves?: boolean | undefined;
  /** Whether the nodes pass a barrier of all nodes when they start. Defaults to false. */
  readonly hasStartBarrier?: boolean | undefined;
  readonly heartbeatIntervalMs: number;
  readonly heartbeatTimeoutMs: number;
  readonly startTimeoutMs: number;
  /** As RosterRules.loopTimeoutMs. Defaults to `loopTimeoutFor`. */
  readonly loopTimeoutMs?: number | undefined;
  /** Where the pulse of this process answers for the scheduler, once it does. */
  readonly pulse?: Pick<SchedulerPulse, "address" | "token"> | undefined;
  /**
   * Which start of a scheduler this is, for instance the time of day. Raised when nodes know a higher one
   * (Scheduler.D4).
   */
  readonly incarnation: number;
  /** As RosterRules.dateMs. */
  readonly dateMs?: (() => number) | undefined;
  /** The job, by its name and the run that begins here (wire/hello.ts); a run that is going on keeps its own. */
  readonly jobId: string;
  /** How servers share the parts, if the job begins here. Defaults to "ring". */
  readonly placement?: PlacementView["policy"] | undefined;
  readonly lingerMs?: number;
  readonly onOnlyDead?: DeadNodeWaitOptions["onOnlyDead"];
  /**
   * Called for a worker whose process ended without having closed its session; `isAwaited`: another one comes for its
   * rank. Returns whether people are told by other means than the log.
   */
  readonly onUnclosed?: ((name: string, isAwaited: boolean) => boolean) | undefined;
  /** Where the state outlives this process; left out, a scheduler that is restarted learns it from the nodes. */
  readonly store?: StateStore | undefined;
  /** Sees every record that changes the scheduler's state, in order. */
  readonly onRecord?: (record: StateRecord) => void;
};
