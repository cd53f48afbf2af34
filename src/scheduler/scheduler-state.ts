// scheduler-state — what a scheduler must not forget: the job, its own term, the incarnations of the ranks, the counts,
// the placement, what is asked of the numbers of servers and workers, the catalogue of parameters. One value that only
// records change: state-journal.ts has them written before anybody is told of them, and a restarted scheduler reads
// them back. Barriers, rendezvous, units, heartbeats and who is alive are not part of it: a restarted scheduler learns
// them from the nodes.
//
// Invariants:
//   SchedulerState.S1. The same records, in the same order, give the same state; a record survives JSON unchanged.
//   SchedulerState.S2. Terms never fall; incarnations, epochs and the catalogue's highest number do not either, as long
//       as the job does not begin anew.
//   SchedulerState.S3. A record is applied before an answer that follows from it is made, and durable before that
//       answer leaves (StateJournal.J2).
//   SchedulerState.S4. `recordsOf` gives records of the same state.

import { WeighbridgeError } from "../base/errors.ts";
import type { PlacementView } from "../wire/roster.ts";
import type { WorkersEnd } from "../wire/scaling.ts";
import { applyToCatalogue, type Catalogue, type CatalogueRecord, emptyCatalogue } from "./catalogue.ts";
import type { Chain, ChainRecord } from "./chains.ts";
import { applyToScaling, emptyScaling, recordsOfScaling, type ScalingRecord, type ScalingState } from "./scaling-wish.ts";
import type { WorkerRecord, WorkerWish } from "./worker-scaling.ts";

export type SchedulerState = {
  readonly job: string;
  /** Which start of a scheduler holds the state: the incarnation that it shows in its hellos. */
  readonly term: number;
  /** How many of each there are to be. */
  readonly serverCount: number;
  readonly workerCount: number;
  /** The newest incarnation of each rank, by node id. */
  readonly incarnations: ReadonlyMap<number, number>;
  /** Left out before the cluster is complete, and in a job without servers. */
  readonly placement?: PlacementView | undefined;
  /** While parts of the placement are not handed over: what comes back if they cannot be (PlacementChanges.C6). */
  readonly pending?: PendingPlacement | undefined;
  /** Who stands by for which server rank; empty where servers are not replicated. */
  readonly chains: ReadonlyMap<number, Chain>;
  /** What is asked of the number of servers. */
  readonly scaling: ScalingState;
  /** What is asked of the number of workers; left out when it is so. */
  readonly workers?: WorkerWish | undefined;
  /** How the last such wish ended. */
  readonly workersEnd?: WorkersEnd | undefined;
  /** How many workers there were to be then. */
  readonly workersAsked?: number | undefined;
  readonly catalogue: Catalogue;
};

/** `previous` is the placement before; left out by a scheduler that has not learned it from a server yet. */
export type PendingPlacement = { readonly previous?: PlacementView | undefined };

export type RecordBody =
  /** A scheduler starts; what it does not find written down it learns from the nodes. */
  | {
      readonly kind: "start";
      readonly job: string;
      readonly term: number;
      readonly serverCount: number;
      readonly workerCount: number;
    }
  /** The job was running before this scheduler came. */
  | { readonly kind: "job"; readonly job: string }
  | { readonly kind: "term"; readonly term: number }
  /** The nodes of the state so far did not come back: the job begins anew, under the same name. */
  | { readonly kind: "anew"; readonly job: string; readonly serverCount: number; readonly workerCount: number }
  /** A rank is held in this incarnation. */
  | { readonly kind: "incarnation"; readonly node: number; readonly incarnation: number }
  /** Requests are cut by this placement from now on. */
  | { readonly kind: "placement"; readonly placement: PlacementView; readonly pending?: PendingPlacement | undefined }
  /** Parts of the placement of this epoch are with their owners, for good. */
  | { readonly kind: "handedOver"; readonly epoch: number }
  | ChainRecord
  | ScalingRecord
  | WorkerRecord
  | CatalogueRecord;

export const RECORD_VERSION = 1;
export type StateRecord = { readonly version: number } & RecordBody;

export function emptyState(): SchedulerState {
  const counts = { term: 0, serverCount: 0, workerCount: 0 };
  return { job: "", ...counts, incarnations: new Map(), chains: new Map(), scaling: emptyScaling(), catalogue: emptyCatalogue() };
}

/**
 * The state after this record. Takes `state` over: its catalogue changes in place. Throws VERSION_MISMATCH for a
 * record of a later version.
 */
export function applyRecord(state: SchedulerState, { version, ...record }: StateRecord): SchedulerState {
  if (version !== RECORD_VERSION)
    throw new WeighbridgeError(
      "VERSION_MISMATCH",
      `a record of the scheduler's state has version ${version}; this one reads ${RECORD_VERSION}`,
    );
  switch (record.kind) {
    case "start": {
      const { job, term, serverCount, workerCount } = record;
      return { ...state, job, serverCount, workerCount, term: Math.max(state.term, term) };
    }
    case "job":
      return { ...state, job: record.job };
    case "term":
      return { ...state, term: Math.max(state.term, record.term) };
    case "anew": {
      const { job, serverCount, workerCount } = record;
      return { ...emptyState(), job, serverCount, workerCount, term: state.term };
    }
    case "incarnation": {
      const { node, incarnation } = record;
      const incarnations = new Map(state.incarnations);
      incarnations.set(node, Math.max(incarnations.get(node) ?? 0, incarnation));
      return { ...state, incarnations };
    }
    case "placement": {
      const { placement, pending } = record;
      const epoch = state.placement?.epoch ?? 0;
      if (placement.epoch > epoch) return { ...state, placement, pending };
      const isNews = placement.epoch === epoch && state.pending !== undefined && state.pending.previous === undefined;
      return isNews ? { ...state, pending } : state;
    }
    case "handedOver":
      return record.epoch >= (state.placement?.epoch ?? 0) ? { ...state, pending: undefined } : state;
    case "chain": {
      const { kind: _, rank, ...chain } = record;
      return { ...state, chains: new Map(state.chains).set(rank, chain) };
    }
    case "wish":
    case "wishEnd":
    case "retired":
    case "request":
      return { ...state, scaling: applyToScaling(state.scaling, record) };
    case "workers":
      return { ...state, workers: record.wish, workersEnd: record.end, workersAsked: record.count };
    default:
      return { ...state, catalogue: applyToCatalogue(state.catalogue, record) };
  }
}

/** The records that give this state, as few as can be. */
export function recordsOf({
  job,
  term,
  serverCount,
  workerCount,
  incarnations,
  placement,
  pending,
  chains,
  scaling,
  workers,
  workersEnd,
  workersAsked,
  catalogue,
}: SchedulerState): StateRecord[] {
  const bodies: RecordBody[] = [{ kind: "start", job, term, serverCount, workerCount }];
  for (const [node, incarnation] of incarnations) bodies.push({ kind: "incarnation", node, incarnation });
  if (placement !== undefined) bodies.push({ kind: "placement", placement, ...(pending === undefined ? {} : { pending }) });
  for (const [rank, chain] of chains) bodies.push({ kind: "chain", rank, ...chain });
  bodies.push(...recordsOfScaling(scaling));
  if (workers !== undefined) bodies.push({ kind: "workers", wish: workers });
  else if (workersEnd !== undefined) bodies.push({ kind: "workers", end: workersEnd, count: workersAsked });
  if (catalogue.highest > 0) bodies.push({ kind: "highest", number: catalogue.highest });
  for (const entry of catalogue.entries.values()) bodies.push({ kind: "parameter", ...entry });
  return bodies.map((body) => ({ version: RECORD_VERSION, ...body }));
}
