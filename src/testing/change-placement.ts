// change-placement — gives a simulated cluster another placement in one moment: the scheduler publishes it, what the servers hold of the parts that get another
// owner goes there, and every server has it from then on. Workers hear of it as they would: by the roster, or by a refusal. Not how a running cluster does it:
// there a part is copied and fenced while training goes on.

import { assert } from "../base/assert.ts";
import { movedParts } from "../keys/placement.ts";
import { placementOf } from "../keys/placement-of.ts";
import type { PlacementChange } from "../scheduler/placement-epochs.ts";
import { PartState } from "../server/parameters/part-state.ts";
import type { Server } from "../server/server.ts";
import type { SimCluster } from "./sim-cluster.ts";

/** Raw keys of kv are not moved: the servers stay the same. */
export function changePlacement(cluster: SimCluster, change: PlacementChange): void {
  const { scheduler } = cluster.scheduler;
  assert(scheduler !== undefined, "the scheduler runs");
  const before = scheduler.roster.placement;
  scheduler.publishPlacement(change);
  const after = scheduler.roster.placement;
  assert(before !== undefined && after !== undefined, "a job with servers has a placement");
  const [old, next] = [placementOf(before), placementOf(after)];
  const states = new Map(old.servers.map((rank) => [rank, new PartState(serverOf(cluster, rank).parameters)]));
  for (const part of movedParts(old, next)) {
    const source = states.get(old.ownerOf(part));
    states.get(next.ownerOf(part))?.loadPart([...(source?.savePart(part) ?? [])]);
    source?.dropPart(part);
  }
  for (const rank of next.servers) serverOf(cluster, rank).ownership.adopt(after, rank);
}

function serverOf(cluster: SimCluster, rank: number): Server {
  const { server } = cluster.server(rank);
  assert(server !== undefined, `server ${rank} runs`);
  return server;
}
