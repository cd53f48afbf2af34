// coordination — what workers with sessions arrange, with each other through the scheduler: who does which units of an
// epoch (UNITS), who reduces with whom (GATHER), and where they wait for each other (RENDEZVOUS); and with servers that
// are about to leave (RETIRE). JSON both ways, as the control plane (control.ts); the shapes are in src/wire.

import { type GatherReply, type GatherRequest, gatherReplyShape, gatherRequestShape } from "../wire/collective-frame.ts";
import { type RendezvousReply, type RendezvousRequest, rendezvousReplyShape, rendezvousRequestShape } from "../wire/control.ts";
import { FunctionId } from "../wire/function-id.ts";
import { type RetireReply, type RetireRequest, retireReplyShape, retireRequestShape } from "../wire/retire.ts";
import { type UnitsReply, type UnitsRequest, unitsReplyShape, unitsRequestShape } from "../wire/units.ts";
import { type JsonContract, jsonContract } from "./contract.ts";

/** A worker tells of units of an epoch that it has done, and asks for others. */
export const UNITS: JsonContract<UnitsRequest, UnitsReply> = jsonContract({
  id: FunctionId.UNITS,
  name: "wb/cluster/units",
  target: "scheduler",
  request: unitsRequestShape,
  response: unitsReplyShape,
});

/** A worker joins the next generation of those who reduce among themselves. */
export const GATHER: JsonContract<GatherRequest, GatherReply> = jsonContract({
  id: FunctionId.GATHER,
  name: "wb/cluster/gather",
  target: "scheduler",
  request: gatherRequestShape,
  response: gatherReplyShape,
});

export const RENDEZVOUS: JsonContract<RendezvousRequest, RendezvousReply> = jsonContract({
  id: FunctionId.RENDEZVOUS,
  name: "wb/cluster/rendezvous",
  target: "scheduler",
  request: rendezvousRequestShape,
  response: rendezvousReplyShape,
});

/**
 * A server that no part is left to is about to leave. A worker or guest adopts the placement, and says what it still
 * has open there: the server stays until that is nothing.
 */
export const RETIRE: JsonContract<RetireRequest, RetireReply> = jsonContract({
  id: FunctionId.RETIRE,
  name: "wb/cluster/retire",
  target: "node",
  request: retireRequestShape,
  response: retireReplyShape,
});
