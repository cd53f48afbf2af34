// change-placement — changes the placement of a cluster in a test: the scheduler prepares all nodes and publishes, and
// the servers exchange their parts (server/copy). Workers learn of it as always, by the roster or by a refusal.

import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import type { Random } from "../base/random.ts";
import { PART_COUNT } from "../keys/placement.ts";
import type { PlacementChange } from "../scheduler/placement-epochs.ts";
import type { Scheduler } from "../scheduler/scheduler.ts";
import { roleOf, SCHEDULER_ID } from "../wire/node-id.ts";
import type { SimCluster } from "./sim-cluster.ts";

/** What a change of the placement needs; undefined: not running now. */
export type PlacedNodes = { readonly scheduler: Scheduler | undefined };

/** How often parts have moved. */
export type Changes = { count: number };

/** So many parts get an owner by chance; the others have that of the policy. */
const MOVED = 500;
/** Why a change is abandoned by a cluster whose nodes come and go. */
const MISHAPS = ["NO_ROUTE", "DEADLINE", "CLOSED", "NODE_DEAD"] as const;

export function nodesOf(cluster: SimCluster): PlacedNodes {
  return {
    get scheduler() {
      return cluster.running(SCHEDULER_ID)?.scheduler;
    },
  };
}

/**
 * Ends when all parts are where they belong. `prepared` is called before anybody is told; what it throws abandons the
 * change. Throws what the scheduler throws.
 */
export async function changePlacement({ scheduler }: PlacedNodes, change: PlacementChange, prepared: () => void = () => {}): Promise<void> {
  if (scheduler === undefined) throw new WeighbridgeError("NO_ROUTE", "there is no scheduler now", { retryable: true });
  await scheduler.publishPlacement(change, prepared);
}

/** Some of the servers, at least one. */
function drawServers(random: Random, serverCount: number): readonly number[] {
  const ranks = Array.from({ length: serverCount }, (_, rank) => rank).filter(() => random.chance(0.6));
  return ranks.length === 0 ? [random.below(serverCount)] : ranks;
}

/** A change by chance: parts go anywhere, or all are dealt out anew. */
export function drawChange(random: Random, serverCount: number): PlacementChange {
  const kind = random.below(10);
  if (kind < 2) return { policy: kind === 0 ? "ring" : "range", moved: [] };
  const parts = new Set(Array.from({ length: MOVED }, () => random.below(PART_COUNT)));
  return { moved: [...parts].flatMap((part) => [part, random.below(serverCount)]) };
}

/** Moves parts again and again, at moments that `random` draws; `changes` counts how often. Returns what stops it. */
export function keepChanging(
  cluster: SimCluster,
  random: Random,
  pauseMsMax: number,
  changes: Changes,
  changeOf: (nodes: PlacedNodes, random: Random, serverCount: number, changes: Changes) => Promise<void> = changeAny,
): () => void {
  let isOver = false;
  const serverCount = cluster.nodes().filter((node) => roleOf(node) === "server").length;
  const next = (): void => void cluster.clock.after(random.below(pauseMsMax), () => void changeOnce());
  const changeOnce = async (): Promise<void> => {
    try {
      await changeOf(nodesOf(cluster), random, serverCount, changes);
    } catch (thrown) {
      if (!MISHAPS.some((code) => isWeighbridgeError(thrown, code))) throw thrown;
    }
    if (!isOver) next();
  };
  next();
  return () => {
    isOver = true;
  };
}

async function changeAny(nodes: PlacedNodes, random: Random, serverCount: number, changes: Changes): Promise<void> {
  await changePlacement(nodes, drawChange(random, serverCount));
  changes.count++;
}

/** All parts go to some of the servers; the others leave the placement, and come back. */
export async function moveAny({ scheduler }: PlacedNodes, random: Random, serverCount: number, changes: Changes): Promise<void> {
  if (scheduler === undefined) throw new WeighbridgeError("NO_ROUTE", "there is no scheduler now", { retryable: true });
  await scheduler.moveTo(drawServers(random, serverCount), { onProgress: () => changes.count++ });
}
