// scaling — adds and removes servers while the job runs: the functions that tools call at the scheduler, and the
// scheduler at servers (scheduler/scaling.ts; docs/decisions/0073). JSON both ways; the shapes are in
// src/wire/scaling.ts.

import { type Empty, emptyShape } from "../wire/control.ts";
import * as scaling from "../wire/scaling.ts";
import { type JsonContract, jsonContract } from "./contract.ts";

/**
 * Asks for a change of the servers; answered when it is written down and nothing speaks against it. Throws BAD_REQUEST,
 * UNSUPPORTED, ARENA_FULL, NODE_DEAD, QUEUE_FULL.
 */
export const scalingAsk: JsonContract<scaling.ScaleRequest, scaling.ScaleReply> = jsonContract({
  name: "wb/scaling/ask",
  target: "scheduler",
  request: scaling.scaleRequestShape,
  response: scaling.scaleReplyShape,
});

/**
 * Asks for another number of workers; answered when it is written down. More are waited for until a timeout, then there
 * are to be as many as before; those that are too many are asked to leave. Throws BAD_REQUEST, NO_ROUTE.
 */
export const scalingWorkers: JsonContract<scaling.WorkersRequest, scaling.WorkersReport> = jsonContract({
  name: "wb/scaling/workers",
  target: "scheduler",
  request: scaling.workersRequestShape,
  response: scaling.workersReportShape,
});

/**
 * Takes the change of the servers that is under way back, and that of the workers; answered when it is. Throws
 * BAD_REQUEST where none is, or it is too late.
 */
export const scalingRollBack: JsonContract<scaling.RollBackRequest, scaling.RollBackReply> = jsonContract({
  name: "wb/scaling/rollback",
  target: "scheduler",
  request: scaling.rollBackRequestShape,
  response: scaling.rollBackReplyShape,
});

/** How far the change under way is, and how the last ones ended. */
export const scalingReport: JsonContract<Empty, scaling.ScalingReport> = jsonContract({
  name: "wb/scaling/report",
  target: "scheduler",
  request: emptyShape,
  response: scaling.scalingReportShape,
});

/**
 * Answered when the change of this number has ended. Throws CLOSED when the job has ended before, and why the job
 * failed.
 */
export const scalingEnded: JsonContract<scaling.ScaleReply, scaling.ScalingEnd> = jsonContract({
  name: "wb/scaling/ended",
  target: "scheduler",
  request: scaling.scaleReplyShape,
  response: scaling.scalingEndShape,
});

/** From the scheduler, before anything moves. Throws UNSUPPORTED, naming what cannot move. */
export const scalingSurvey: JsonContract<scaling.SurveyRequest, scaling.SurveyReply> = jsonContract({
  name: "wb/scaling/survey",
  target: "server",
  request: scaling.surveyRequestShape,
  response: scaling.surveyReplyShape,
});

/** From the scheduler, to a server that waits for a rank and gets none for now. */
export const scalingSpare: JsonContract<scaling.SpareNotice, Empty> = jsonContract({
  name: "wb/scaling/spare",
  target: "server",
  request: scaling.spareNoticeShape,
  response: emptyShape,
});
