// register — a node requests its rank from the scheduler, and gets it with the roster once the cluster is complete.
// After a restart of the scheduler the nodes register again with the rank they had (`resume`): it learns the job anew.

import {
  type AbortRequest,
  abortRequestShape,
  type BarrierRequest,
  barrierRequestShape,
  type RendezvousHeld,
  rendezvousHeldShape,
} from "./control.ts";
import { type Generation, generationShape } from "./generation.ts";
import { jobShape, packageVersionShape, tokenShape } from "./hello.ts";
import { type Check, count, flag, list, object, optional } from "./json-body.ts";
import { type Role, roleShape } from "./node-id.ts";
import { addressShape, labelShape, type RosterView, rosterShape } from "./roster.ts";
import { type UnitsClaim, unitsClaimShape } from "./units-claim.ts";

export type RegisterRequest = {
  readonly role: Role;
  /** The requested rank; left out, any free one will do. */
  readonly rank: number | undefined;
  /** Where this node listens. */
  readonly address: string;
  readonly serverCount: number;
  readonly workerCount: number;
  /** A person's name for the node, host and process id by default. */
  readonly label: string;
  /** One per process that registers: the same token again is the same node, whose answer was lost. */
  readonly token: string;
  /** Of the package that the node runs. */
  readonly packageVersion?: string | undefined;
  /** Left out by a node that has no rank yet. */
  readonly resume: ResumeClaim | undefined;
  /** Why this node cannot start, so that nobody waits for it. Left out by one that can. */
  readonly failure?: AbortRequest | undefined;
  /** Of a server whose rank is held by several processes; left out by all others. */
  readonly copy?: CopyClaim | undefined;
  /** Of a server that keeps its state on a disk: if its process ends, another one goes on with it. */
  readonly returns?: boolean | undefined;
  /** Of a worker without sessions: it never joins the clock set. */
  readonly hasNoClock?: boolean | undefined;
};

/**
 * A copy of a server rank, of which there are `replicas`; the scheduler decides which copies hold a rank together, and
 * which of them leads. `process` is unique on its `host`; `settings`, each `name value`, are what copies of a rank must
 * have in common beside the version of the package.
 */
export type CopyClaim = {
  readonly replicas: number;
  readonly host: string;
  readonly process: string;
  readonly settings: readonly string[];
};

const copyClaimShape: Check<CopyClaim> = object({ replicas: count, host: labelShape, process: labelShape, settings: list(labelShape) });

/** The rank that a node has, and all else it knows, for a scheduler that was restarted. */
export type ResumeClaim = {
  readonly job: string;
  readonly node: number;
  readonly incarnation: number;
  /** The newest roster that it got. */
  readonly roster: RosterView;
  /** The last round it passed of each barrier. */
  readonly passed: readonly BarrierRequest[];
  /** A worker that was lent units: what it knows of them. */
  readonly units?: UnitsClaim | undefined;
  /** The generation of workers that it is in, if it is in one. */
  readonly gathered?: Generation | undefined;
  /** The rendezvous that a worker has left, the last ones. */
  readonly rendezvous?: readonly RendezvousHeld[] | undefined;
  /** What it knows of the catalogue of parameters; the entries follow in pages (catalogue.ts). */
  readonly catalogue?: CatalogueClaim | undefined;
  /** The process is another one, which has the state from a disk: it asks for the next incarnation. */
  readonly isStored?: boolean | undefined;
};

/** What a node that resumes claims about the catalogue: the highest number that it knows. The entries follow. */
export type CatalogueClaim = { readonly highest: number };

const resumeClaimShape: Check<ResumeClaim> = object({
  job: jobShape,
  node: count,
  incarnation: count,
  roster: rosterShape,
  passed: list(barrierRequestShape),
  units: optional(unitsClaimShape),
  gathered: optional(generationShape),
  rendezvous: optional(list(rendezvousHeldShape)),
  catalogue: optional(object({ highest: count })),
  isStored: optional(flag),
});

export const registerRequestShape: Check<RegisterRequest> = object({
  role: roleShape,
  rank: optional(count),
  address: addressShape,
  serverCount: count,
  workerCount: count,
  label: labelShape,
  token: tokenShape,
  packageVersion: optional(packageVersionShape),
  resume: optional(resumeClaimShape),
  failure: optional(abortRequestShape),
  copy: optional(copyClaimShape),
  returns: optional(flag),
  hasNoClock: optional(flag),
});

export type RegisterReply = {
  readonly job: string;
  readonly node: number;
  readonly incarnation: number;
  /** True when this node takes over a rank that another one had before it. */
  readonly recovery: boolean;
  readonly heartbeatIntervalMs: number;
  readonly heartbeatTimeoutMs: number;
  /** What the job began with: a node that joined it later may have been started with other counts. */
  readonly counts?: StartCounts | undefined;
  /** The job goes on without workers, until its scheduler is told to end it. */
  readonly serves?: boolean | undefined;
  /** Of a scheduler that takes pulses. */
  readonly pulse?: SchedulerPulse | undefined;
  readonly roster: RosterView;
};

/**
 * Where a pulse answers for the scheduler itself, and the token that its answers show; left out: none does.
 * `loopTimeoutMs`: a server whose loop is busy for longer is replaced, or dead; 0: it never is.
 */
export type SchedulerPulse = { readonly loopTimeoutMs: number; readonly address?: string | undefined; readonly token?: string | undefined };
const schedulerPulseShape: Check<SchedulerPulse> = object({
  ...{ loopTimeoutMs: count, address: optional(addressShape), token: optional(tokenShape) },
});

export type StartCounts = { readonly serverCount: number; readonly workerCount: number };

export const registerReplyShape: Check<RegisterReply> = object({
  job: jobShape,
  node: count,
  incarnation: count,
  recovery: flag,
  heartbeatIntervalMs: count,
  heartbeatTimeoutMs: count,
  counts: optional(object({ serverCount: count, workerCount: count })),
  serves: optional(flag),
  pulse: optional(schedulerPulseShape),
  roster: rosterShape,
});
