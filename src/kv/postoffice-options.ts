// postoffice-options — what a node is started with. Not the configuration of a process: node/start.ts makes these out of one.

import type { Clock } from "../base/clock.ts";
import type { Log } from "../base/log.ts";
import type { PsFunction } from "../contracts/ps-function.ts";
import type { KernelMemory } from "../kernel/kernel-memory.ts";
import type { ChannelLimits } from "../peer/channel-limits.ts";
import type { FaultOptions } from "../peer/faults.ts";
import type { SnapshotFiles, SnapshotSource } from "../store/snapshot/snapshot-files.ts";
import type { Address, Transport } from "../transport/transport.ts";
import type { GeneralCompression } from "../wire/codecs/general-compression.ts";
import type { StatusReply } from "../wire/control.ts";
import type { Role } from "../wire/node-id.ts";
import type { PlacementView, RosterView } from "../wire/roster.ts";

export type PostofficeOptions = {
  readonly role: Role;
  readonly serverCount: number;
  readonly workerCount: number;
  /** Where the scheduler listens. */
  readonly schedulerAddress: Address;
  /** Where a server listens; port 0 takes a free one. */
  readonly listenAddress?: Address;
  /** Where a worker listens for the other workers, from the first time on that they reduce among themselves; left out or "", they cannot. */
  readonly meshAddress?: Address;
  /** What others are told to connect to, made from the address that was bound. */
  readonly advertise?: (bound: Address) => Address;
  readonly rank?: number | undefined;
  /** A person's name for this node. */
  readonly label?: string;
  /** Of the package this node runs, for others to see. */
  readonly packageVersion?: string | undefined;
  readonly transport: Transport;
  readonly clock: Clock;
  readonly log?: Log;
  readonly heartbeatIntervalMs?: number;
  readonly heartbeatTimeoutMs?: number;
  readonly startTimeoutMs?: number;
  /** Gives the start up; a node that has started goes on. */
  readonly signal?: AbortSignal | undefined;
  /** How long this node waits at most until it and the others have started, where that is less than `startTimeoutMs`. */
  readonly deadlineMs?: number | undefined;
  readonly resendTimeoutMs?: number;
  /** Calls to a node that could not be reached for this long fail with LINK_LOST. */
  readonly linkTimeoutMs?: number | undefined;
  /** How long a wait for a request lasts when its caller sets no deadline; left out, as long as the request. */
  readonly requestTimeoutMs?: number | undefined;
  readonly faults?: FaultOptions | undefined;
  readonly limits?: Partial<ChannelLimits>;
  readonly arenaBytesMax?: number | undefined;
  /** For a server: hears of the memory that parameters will lie in, before anything does. */
  readonly onMemory?: ((memory: KernelMemory) => void) | undefined;
  /** For a server: PS functions of the user's own, beside the built-in ones. */
  readonly functions?: readonly PsFunction[];
  /** For parameters whose links ask for it; left out, those cannot be made. */
  readonly compression?: GeneralCompression | undefined;
  /** For a server: where checkpoints are; left out, none can be taken. */
  readonly checkpointFiles?: SnapshotFiles | undefined;
  /** For a server: what it begins with, before anybody asks it anything. */
  readonly restoreFrom?: (() => Promise<SnapshotSource>) | undefined;
  /** For the scheduler: hears that it listens, before anybody can have come. */
  readonly onListening?: () => void;
  /** For the scheduler: opens what lets people look at the job, once it listens; closed with the node. When it throws, the job ends with that. */
  readonly manage?: ((status: () => StatusReply) => Promise<{ close(): Promise<void> }>) | undefined;
  /** For the scheduler: a name for the job, and a number higher than that of any earlier scheduler of it. */
  readonly jobId?: string;
  /** For the scheduler: how parts are dealt out, if the job begins here. Defaults to "ring". */
  readonly placement?: PlacementView["policy"] | undefined;
  readonly incarnation?: number;
  /** False starts without waiting for all nodes to be ready (ps-lite: StartAsync). A recovered node never waits. */
  readonly startBarrier?: boolean;
  /** Hears every newer roster, from before the start on. */
  readonly onRoster?: (roster: RosterView) => void;
  /** For the scheduler: hears which nodes are dead when all others are done and wait for these alone. Who knows that they will not come back says so. */
  readonly onOnlyDead?: (names: readonly string[], dismiss: () => void) => void;
};

/** How long a node waits for its cluster when nothing else is said. */
export const START_TIMEOUT_MS = 60_000;
