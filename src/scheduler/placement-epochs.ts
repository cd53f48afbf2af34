// placement-epochs — the placements of a job one after the other: the first one, and the next one. Pure.
//
// Invariants:
//   PlacementEpochs.E1. The first epoch is 1, and each placement has one more than the one before it. No epoch names
//       two placements: a restarted scheduler makes none before all nodes have resumed, since any may know a newer one.

import { badArgument, unsupported, WeighbridgeError } from "../base/errors.ts";
import { Placements } from "../keys/placement-of.ts";
import { EPOCH_MAX } from "../wire/frame.ts";
import type { PlacementView } from "../wire/roster.ts";
import type { ClusterCounts } from "./applicant.ts";
import type { RankSlots } from "./rank-slots.ts";

/**
 * What is left out stays as it is; `moved` belongs to its policy and servers, and goes with them. `move` does not stay.
 */
export type PlacementChange = Partial<Omit<PlacementView, "epoch">>;

/** Of a job that begins with these servers; undefined without any. */
export function firstPlacement({
  serverCount,
  placement: policy = "ring",
}: ClusterCounts & { readonly placement?: PlacementView["policy"] | undefined }): PlacementView | undefined {
  return serverCount === 0 ? undefined : { epoch: 1, policy, servers: Array.from({ length: serverCount }, (_, rank) => rank) };
}

/** Throws BAD_ARGUMENT for an illegal placement, NO_ROUTE while the next epoch is uncertain (PlacementEpochs.E1). */
export function nextPlacement(
  slots: Pick<RankSlots, "all" | "placement">,
  change: PlacementChange,
  placements: Placements = new Placements(),
): PlacementView {
  const current = slots.placement;
  const silent = slots.all().filter(({ state, confirmed }) => state === "alive" && !confirmed);
  if (current === undefined || silent.length > 0)
    throw new WeighbridgeError("NO_ROUTE", "the next placement cannot be made before every node of the job was heard of", {
      retryable: true,
    });
  if (current.epoch === EPOCH_MAX) throw unsupported(`a job has at most ${EPOCH_MAX} placements`);
  const { policy = current.policy, servers = current.servers } = change;
  const isSame = policy === current.policy && servers === current.servers;
  const moved = change.moved ?? (isSame ? current.moved : undefined);
  const { move } = change;
  const next = {
    ...{ epoch: current.epoch + 1, policy, servers },
    ...(moved === undefined || moved.length === 0 ? {} : { moved }),
    ...(move === undefined ? {} : { move }),
  };
  const unknown = servers.filter((rank) => !slots.all().some((slot) => slot.role === "server" && slot.rank === rank));
  if (unknown.length > 0) throw badArgument(`a placement names servers of the job, not server ${unknown.join(", ")}`);
  placements.of(next);
  return next;
}
