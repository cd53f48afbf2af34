// change-placement — changes the placement of a cluster whose nodes all live in this process. The scheduler prepares
// the workers; then, at one moment, parts with a new owner move there with their state and every server adopts the
// placement; then the scheduler publishes it. Workers learn of it as always, by the roster or by a refusal. Servers in
// processes of their own would copy and fence a part while training goes on.
//
// Invariants:
//   ChangePlacement.P1. A part moves only between servers that are alike in what is a server's own and not a part's
//       (PartState). Parameters and phases differ while a worker makes or changes one, clocks while some servers do not
//       know yet that a worker is dead: then the change is abandoned without effect. Clocks of workers that live
//       do not differ once they are prepared (PlacementChanges.C1).

import { assert } from "../base/assert.ts";
import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import type { Random } from "../base/random.ts";
import { movedParts, PART_COUNT } from "../keys/placement.ts";
import { placementOf } from "../keys/placement-of.ts";
import type { PlacementChange } from "../scheduler/placement-epochs.ts";
import type { Scheduler } from "../scheduler/scheduler.ts";
import { PartState } from "../server/parameters/part-state.ts";
import type { Server } from "../server/server.ts";
import { idOf, roleOf, SCHEDULER_ID } from "../wire/node-id.ts";
import type { PlacementView } from "../wire/roster.ts";
import type { SimCluster } from "./sim-cluster.ts";

/** The nodes that a change of the placement needs; undefined: not running now. */
export type PlacedNodes = { readonly scheduler: Scheduler | undefined; serverOf(rank: number): Server | undefined };

/** How often parts have moved. */
export type Changes = { count: number };

/**
 * Called before parts move, with the workers prepared, and before the placement is published; a throw ends the change.
 */
export type ChangePhases = { readonly prepared?: () => void; readonly moved?: () => void };

/** So many parts get an owner by chance; the others have that of the policy. */
const MOVED = 500;
/** Of the phases of a parameter so many clocks are compared. */
const CLOCKS_AHEAD = 16;
/** Why a change is abandoned by a cluster whose nodes come and go. */
const MISHAPS = ["NO_ROUTE", "DEADLINE", "CLOSED"] as const;

export function nodesOf(cluster: SimCluster): PlacedNodes {
  return {
    get scheduler() {
      return cluster.running(SCHEDULER_ID)?.scheduler;
    },
    serverOf: (rank) => cluster.running(idOf("server", rank))?.server,
  };
}

/**
 * Raw keys of kv are not moved: the servers stay the same. Throws NO_ROUTE (P1), and what the scheduler throws; then
 * nothing has happened.
 */
export async function changePlacement(nodes: PlacedNodes, change: PlacementChange, phases: ChangePhases = {}): Promise<void> {
  const { scheduler } = nodes;
  if (scheduler === undefined) throw new WeighbridgeError("NO_ROUTE", "there is no scheduler now", { retryable: true });
  await scheduler.publishPlacement(change, (next) => {
    phases.prepared?.();
    const { placement: before, nodes: entries } = scheduler.roster;
    assert(before !== undefined, "a job with servers has a placement");
    const ranks = [...new Set([...before.servers, ...next.servers])];
    const servers = new Map(ranks.map((rank) => [rank, serverOf(nodes, rank)]));
    const live = entries.filter(({ role, state }) => role === "worker" && state === "alive");
    checkAlike([...servers.values()], new Set(live.map(({ node, incarnation }) => `${node}/${incarnation}`)));
    moveParts(before, next, servers);
    phases.moved?.();
  });
}

/** A change by chance: parts go anywhere, or all are dealt out anew. */
export function drawChange(random: Random, serverCount: number): PlacementChange {
  const kind = random.below(10);
  if (kind < 2) return { policy: kind === 0 ? "ring" : "range", moved: [] };
  const parts = new Set(Array.from({ length: MOVED }, () => random.below(PART_COUNT)));
  return { moved: [...parts].flatMap((part) => [part, random.below(serverCount)]) };
}

/** Moves parts again and again, at moments that `random` draws; `changes` counts how often. Returns what stops it. */
export function keepChanging(cluster: SimCluster, random: Random, pauseMsMax: number, changes: Changes): () => void {
  let isOver = false;
  const serverCount = cluster.nodes().filter((node) => roleOf(node) === "server").length;
  const next = (): void => void cluster.clock.after(random.below(pauseMsMax), () => void changeOnce());
  const changeOnce = async (): Promise<void> => {
    try {
      await changePlacement(nodesOf(cluster), drawChange(random, serverCount));
      changes.count++;
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

function serverOf(nodes: PlacedNodes, rank: number): Server {
  const server = nodes.serverOf(rank);
  if (server !== undefined) return server;
  throw new WeighbridgeError("NO_ROUTE", `server ${rank} does not run now`, { retryable: true });
}

/** P1 */
function checkAlike(servers: readonly Server[], liveWorkers: ReadonlySet<string>): void {
  const isOne = (stateOf: (server: Server) => string): boolean => new Set(servers.map(stateOf)).size === 1;
  if (!isOne(parametersOf)) throw new WeighbridgeError("NO_ROUTE", "servers differ in their parameters", { retryable: true });
  const unlike = new WeighbridgeError("NO_ROUTE", "not all servers have heard who has joined, and who is dead", { retryable: true });
  if (!isOne((server) => JSON.stringify(membersOf(server).map(({ holder }) => holder)))) throw unlike;
  const clocksOf = (server: Server, isMeant: (holder: string) => boolean): string =>
    JSON.stringify(membersOf(server).filter(({ holder }) => isMeant(holder)));
  assert(
    isOne((server) => clocksOf(server, (holder) => liveWorkers.has(holder))),
    "servers differ in the clocks of workers that are prepared",
  );
  if (!isOne((server) => `${server.parameters.pacer.clockMin} ${clocksOf(server, () => true)}`)) throw unlike;
}

function moveParts(before: PlacementView, next: PlacementView, servers: ReadonlyMap<number, Server>): void {
  const [from, to] = [placementOf(before), placementOf(next)];
  const states = new Map([...servers].map(([rank, { parameters }]) => [rank, new PartState(parameters)]));
  for (const part of movedParts(from, to)) {
    const source = states.get(from.ownerOf(part));
    states.get(to.ownerOf(part))?.loadPart([...(source?.savePart(part) ?? [])]);
    source?.dropPart(part);
  }
  for (const [rank, { ownership }] of servers) ownership.adopt(next, rank);
}

/** The clock set of a server, in an order of its own. */
function membersOf({ parameters: { pacer } }: Server): readonly { readonly holder: string; readonly clock: number }[] {
  const members = pacer.members().map(({ worker, incarnation, clock }) => ({ holder: `${worker}/${incarnation}`, clock }));
  return members.sort((a, b) => (a.holder < b.holder ? -1 : 1));
}

/** Which parameters there are, and how updates of the next clocks are taken. */
function parametersOf({ parameters, ownership }: Server): string {
  const known = [...parameters.entries()].map((entry) => JSON.stringify(entry));
  const clocks = Array.from({ length: CLOCKS_AHEAD }, (_, i) => parameters.pacer.clockMin + i);
  const phases = parameters.all.map(({ spec, pace, phases: own }) => {
    const modes = clocks.map((clock) => own.at(clock)).map(({ updates, reduce }) => [updates, reduce]);
    return JSON.stringify([spec.name, pace.survey.turn, pace.training.staleness, modes]);
  });
  return JSON.stringify([ownership.epoch, parameters.isRestoring, known.sort(), phases.sort()]);
}
