// session-node — the node under a session, as a session needs it: a WorkerNode.

import type { Clock } from "../base/clock.ts";
import type { WaitOptions } from "../base/deferred.ts";
import type { Log } from "../base/log.ts";
import type { LeaveBarrier } from "../cluster/cluster-node.ts";
import type { RosterView } from "../wire/roster.ts";
import type { Worker } from "../worker/worker.ts";
import type { WorkerMesh } from "../worker/worker-mesh.ts";

/** @internal The node under a session: a WorkerNode. */
export type SessionNode = {
  /** Undefined on a node of another role. */
  readonly worker?: Worker | undefined;
  /** Its links with the other workers. */
  readonly mesh?: WorkerMesh | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly role: string;
  readonly rank: number;
  readonly workerCount: number;
  readonly roster: RosterView;
  barrier(group: number, customer: number, options?: WaitOptions): Promise<void>;
  finalize(options?: { readonly barrier?: LeaveBarrier | undefined } & WaitOptions): Promise<void>;
};
