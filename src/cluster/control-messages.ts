// control-messages — the control plane's functions with the shapes of their requests and answers, in one place. What they mean is the
// business of scheduler/scheduler.ts and peer/membership.ts.
//
//   to the scheduler:  REGISTER HEARTBEAT BARRIER LEAVE STATUS CHECKPOINT UNITS PLACEMENT GATHER RENDEZVOUS      from the scheduler:  ROSTER ABORT CHECKPOINT

import type { ControlMessage } from "../peer/json-call.ts";
import * as control from "../wire/control.ts";
import { FunctionId } from "../wire/function-id.ts";
import { type GatherReply, type GatherRequest, gatherReplyShape, gatherRequestShape } from "../wire/gather.ts";
import { type RegisterReply, type RegisterRequest, registerReplyShape, registerRequestShape } from "../wire/register.ts";
import { type RendezvousReply, type RendezvousRequest, rendezvousReplyShape, rendezvousRequestShape } from "../wire/rendezvous.ts";
import { type RosterView, rosterShape } from "../wire/roster.ts";
import { type UnitsReply, type UnitsRequest, unitsReplyShape, unitsRequestShape } from "../wire/units.ts";

type Empty = control.Empty;

export const REGISTER: ControlMessage<RegisterRequest, RegisterReply> = {
  functionId: FunctionId.REGISTER,
  name: "REGISTER",
  request: registerRequestShape,
  reply: registerReplyShape,
};

export const HEARTBEAT: ControlMessage<Empty, Empty> = {
  functionId: FunctionId.HEARTBEAT,
  name: "HEARTBEAT",
  request: control.emptyShape,
  reply: control.emptyShape,
};

export const BARRIER: ControlMessage<control.BarrierRequest, control.BarrierReply> = {
  functionId: FunctionId.BARRIER,
  name: "BARRIER",
  request: control.barrierRequestShape,
  reply: control.barrierReplyShape,
};

export const LEAVE: ControlMessage<control.LeaveRequest, Empty> = {
  functionId: FunctionId.LEAVE,
  name: "LEAVE",
  request: control.leaveRequestShape,
  reply: control.emptyShape,
};

export const STATUS: ControlMessage<Empty, control.StatusReply> = {
  functionId: FunctionId.STATUS,
  name: "STATUS",
  request: control.emptyShape,
  reply: control.statusReplyShape,
};

export const ROSTER: ControlMessage<RosterView, Empty> = {
  functionId: FunctionId.ROSTER,
  name: "ROSTER",
  request: rosterShape,
  reply: control.emptyShape,
};

export const PLACEMENT: ControlMessage<Empty, control.PlacementReply> = {
  functionId: FunctionId.PLACEMENT,
  name: "PLACEMENT",
  request: control.emptyShape,
  reply: control.placementReplyShape,
};

export const ABORT: ControlMessage<control.AbortRequest, Empty> = {
  functionId: FunctionId.ABORT,
  name: "ABORT",
  request: control.abortRequestShape,
  reply: control.emptyShape,
};

export const CHECKPOINT: ControlMessage<control.CheckpointRequest, control.CheckpointReply> = {
  functionId: FunctionId.CHECKPOINT,
  name: "CHECKPOINT",
  request: control.checkpointRequestShape,
  reply: control.checkpointReplyShape,
};

export const UNITS: ControlMessage<UnitsRequest, UnitsReply> = {
  functionId: FunctionId.UNITS,
  name: "UNITS",
  request: unitsRequestShape,
  reply: unitsReplyShape,
};

export const GATHER: ControlMessage<GatherRequest, GatherReply> = {
  functionId: FunctionId.GATHER,
  name: "GATHER",
  request: gatherRequestShape,
  reply: gatherReplyShape,
};

export const RENDEZVOUS: ControlMessage<RendezvousRequest, RendezvousReply> = {
  functionId: FunctionId.RENDEZVOUS,
  name: "RENDEZVOUS",
  request: rendezvousRequestShape,
  reply: rendezvousReplyShape,
};
