// control — the control plane: who is there, and who waits for whom. JSON both ways (docs/decisions/0002): rare, small,
// and easy to speak from any language; the shapes are in src/wire. What the scheduler does about them is the business
// of scheduler/scheduler.ts, what the others do that of cluster/membership.ts. What workers arrange among themselves
// is in contracts/coordination.ts.
//
//   to the scheduler     REGISTER HEARTBEAT BARRIER LEAVE STATUS PLACEMENT
//   from the scheduler   ROSTER ABORT PREPARE
//   between any nodes    HEARTBEAT

import * as control from "../wire/control.ts";
import { FunctionId } from "../wire/function-id.ts";
import { type RegisterReply, type RegisterRequest, registerReplyShape, registerRequestShape } from "../wire/register.ts";
import { type RosterView, rosterShape } from "../wire/roster.ts";
import { type JsonContract, jsonContract } from "./contract.ts";

type Empty = control.Empty;

/** A node registers for a slot, or says that it has one already; answered when the cluster is complete. */
export const REGISTER: JsonContract<RegisterRequest, RegisterReply> = jsonContract({
  id: FunctionId.REGISTER,
  name: "wb/cluster/register",
  target: "scheduler",
  request: registerRequestShape,
  response: registerReplyShape,
});

/** The sender lives. Every node answers, so that the sender knows that the other one still reads. */
export const HEARTBEAT: JsonContract<control.HeartbeatRequest, control.HeartbeatReply> = jsonContract({
  id: FunctionId.HEARTBEAT,
  name: "wb/cluster/heartbeat",
  target: "node",
  request: control.heartbeatRequestShape,
  response: control.heartbeatReplyShape,
});

export const BARRIER: JsonContract<control.BarrierRequest, control.BarrierReply> = jsonContract({
  id: FunctionId.BARRIER,
  name: "wb/cluster/barrier",
  target: "scheduler",
  request: control.barrierRequestShape,
  response: control.barrierReplyShape,
});

export const LEAVE: JsonContract<control.LeaveRequest, control.LeaveReply> = jsonContract({
  id: FunctionId.LEAVE,
  name: "wb/cluster/leave",
  target: "scheduler",
  request: control.leaveRequestShape,
  response: control.leaveReplyShape,
});

export const STATUS: JsonContract<Empty, control.StatusReply> = jsonContract({
  id: FunctionId.STATUS,
  name: "wb/cluster/status",
  target: "scheduler",
  request: control.emptyShape,
  response: control.statusReplyShape,
});

/** The scheduler tells a node who is there. */
export const ROSTER: JsonContract<RosterView, Empty> = jsonContract({
  id: FunctionId.ROSTER,
  name: "wb/cluster/roster",
  target: "node",
  request: rosterShape,
  response: control.emptyShape,
});

/** Who owns what now. */
export const PLACEMENT: JsonContract<Empty, control.PlacementReply> = jsonContract({
  id: FunctionId.PLACEMENT,
  name: "wb/cluster/placement",
  target: "scheduler",
  request: control.emptyShape,
  response: control.placementReplyShape,
});

/**
 * The placement is about to change. A worker answers once the servers have answered every clock message that it
 * has sent, a server when it loads nothing from a checkpoint; until it has the placement, or hears that it does not
 * come, the one sends no other clock message, and the other begins no load. QUEUE_FULL: ask again. UNSUPPORTED: it
 * cannot, and the placement does not come. Once it has come, a server answers when its parts are where they belong;
 * NODE_DEAD, ARENA_FULL and others say why that cannot be.
 */
export const PREPARE: JsonContract<control.PrepareRequest, control.PrepareReply> = jsonContract({
  id: FunctionId.PREPARE,
  name: "wb/cluster/prepare",
  target: "node",
  request: control.prepareRequestShape,
  response: control.prepareReplyShape,
});

/** The scheduler ends the job. */
export const ABORT: JsonContract<control.AbortRequest, Empty> = jsonContract({
  id: FunctionId.ABORT,
  name: "wb/cluster/abort",
  target: "node",
  request: control.abortRequestShape,
  response: control.emptyShape,
});
