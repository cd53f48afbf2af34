// node-options — the options of a node of any role. node/ makes them from the configuration of a process. Types alone.

import type { Clock } from "../base/clock.ts";
import type { Log } from "../base/log.ts";
import type { ChannelLimits } from "../peer/channel-host.ts";
import type { FaultOptions } from "../peer/faults.ts";
import type { Gateway } from "../peer/gateway.ts";
import type { Address, Transport } from "../transport/transport.ts";
import type { CopyClaim } from "../wire/register.ts";
import type { RosterView } from "../wire/roster.ts";
import type { Pulse } from "./pulse.ts";

export type NodeOptions = {
  readonly serverCount: number;
  readonly workerCount: number;
  /** The job's name; left out by a node that takes its scheduler's, whichever that is. */
  readonly job?: string | undefined;
  /** Where the scheduler listens. */
  readonly schedulerAddress: Address;
  /** Where else it may listen: schedulers that take over when it ends. */
  readonly otherSchedulers?: readonly Address[] | undefined;
  /** Of the package this node runs, for others to see. */
  readonly packageVersion?: string | undefined;
  readonly transport: Transport;
  /** Set where the nodes of the job speak another protocol than ours. */
  readonly gateway?: Gateway | undefined;
  readonly clock: Clock;
  readonly log?: Log;
  readonly startTimeoutMs?: number;
  /** Gives the start up; a node that has started goes on. */
  readonly signal?: AbortSignal | undefined;
  /** How long this node waits for its own and the others' start, where that is less than `startTimeoutMs`. */
  readonly timeoutMs?: number | undefined;
  readonly resendTimeoutMs?: number;
  /** How long a wait for a request lasts when its caller sets no deadline; left out, as long as the request. */
  readonly requestTimeoutMs?: number | undefined;
  readonly faults?: FaultOptions | undefined;
  readonly limits?: Partial<ChannelLimits>;
  /** What speaks for this node while its loop is busy; left out where nothing can. */
  readonly pulse?: Pulse | undefined;
  /** False starts without waiting for all nodes to be ready (ps-lite: StartAsync). A recovered node never waits. */
  readonly startBarrier?: boolean | undefined;
  /** Called with every newer roster, from before the start on. */
  readonly onRoster?: (roster: RosterView) => void;
};

/** Of a node that registers with the scheduler: a server or a worker. */
export type MemberOptions = NodeOptions & {
  /** Left out: any free rank. */
  readonly rank?: number | undefined;
  /** A person's name for this node. */
  readonly label?: string;
  /** Where the node listens; port 0 takes a free one. Left out, it does not. */
  readonly listenAddress?: Address;
  /** The address that others connect to, made from the address that was bound. */
  readonly advertise?: (bound: Address) => Address;
  /** Of a server whose rank is held by several processes. */
  readonly copy?: CopyClaim | undefined;
  /** Of a server: if its process ends, another one goes on with its state. */
  readonly returns?: boolean | undefined;
  /** Of a worker that never joins the clock set: no server waits for it. */
  readonly hasNoClock?: boolean | undefined;
  /** Calls to a node that could not be reached for this long fail with LINK_LOST. */
  readonly linkTimeoutMs?: number | undefined;
};
