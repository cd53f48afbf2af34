// coordination — what workers arrange among themselves through the scheduler: who does which units of an epoch (UNITS),
// who reduces with whom (GATHER), and where they wait for each other (RENDEZVOUS). JSON both ways, as the control plane
// (control.ts); the shapes are in src/wire.

import { type GatherReply, type GatherRequest, gatherReplyShape, gatherRequestShape } from "../wire/collective-frame.ts";
import { type RendezvousReply, type RendezvousRequest, rendezvousReplyShape, rendezvousRequestShape } from "../wire/control.ts";
import { FunctionId } from "../wire/function-id.ts";
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
