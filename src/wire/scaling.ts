// scaling — what is asked of the number of servers and of workers, and what the scheduler reports of it. JSON, as the
// control plane; outside of control.ts, since no worker needs it.

import { badRequest } from "../base/errors.ts";
import { type Check, count, flag, list, object, oneOf, optional, text } from "./json-body.ts";

/** Servers that come, or servers that leave. */
export type ScalingDirection = "out" | "in";
const directionShape = oneOf("out", "in");

const REQUEST_ID_LENGTH_MAX = 64;
/** By which a client names a request that it may have to repeat. */
export const requestIdShape: Check<string> = (value, path) => {
  if (typeof value === "string" && value !== "" && value.length <= REQUEST_ID_LENGTH_MAX) return value;
  throw badRequest(`${path} must be a string of 1 to ${REQUEST_ID_LENGTH_MAX} characters`);
};

/**
 * Exactly one of `to`, so many servers in all, `add`, so many more, and `leave`, these ranks gone. `timeoutMs`: how
 * long new servers may take to come; left out: a minute. `requestId`: a request with the same one is a repetition, and
 * changes nothing. Without it, `add` is taken for one while a change that adds as many has not ended.
 */
export type ScaleRequest = {
  readonly to?: number | undefined;
  readonly add?: number | undefined;
  readonly leave?: readonly number[] | undefined;
  readonly timeoutMs?: number | undefined;
  readonly requestId?: string | undefined;
};
export const scaleRequestShape: Check<ScaleRequest> = object({
  to: optional(count),
  add: optional(count),
  leave: optional(list(count)),
  timeoutMs: optional(count),
  requestId: optional(requestIdShape),
});

/** The change has this number in reports. */
export type ScaleReply = { readonly number: number };
export const scaleReplyShape: Check<ScaleReply> = object({ number: count });

/** `direction`: only a change of that direction; left out: the one under way. */
export type RollBackRequest = { readonly direction?: ScalingDirection | undefined };
export const rollBackRequestShape: Check<RollBackRequest> = object({ direction: optional(directionShape) });

/** The number of the change of the servers that was taken back; how many workers there are to be again. */
export type RollBackReply = { readonly number?: number | undefined; readonly workerCount?: number | undefined };
export const rollBackReplyShape: Check<RollBackReply> = object({ number: optional(count), workerCount: optional(count) });

/** What the change under way does now: it waits for new servers, moves parts, lets servers leave, or goes back. */
export type ScalingStep = "waiting" | "moving" | "leaving" | "rollingBack";

export type ScalingView = {
  readonly number: number;
  readonly direction: ScalingDirection;
  readonly step: ScalingStep;
  /** Ranks before, and ranks to be. */
  readonly from: readonly number[];
  readonly to: readonly number[];
  /** The ranks of servers that have not come yet. */
  readonly awaited: readonly number[];
  /** Of replicated servers: the ranks whose standby has not come yet, and those where it is being filled. */
  readonly awaitedStandbys?: readonly number[] | undefined;
  readonly fillingStandbys?: readonly number[] | undefined;
  /** How much longer they are waited for. */
  readonly waitMs?: number | undefined;
  /** Of the parts that move: how many there are, and how many have. */
  readonly parts?: number | undefined;
  readonly moved?: number | undefined;
};
const viewShape: Check<ScalingView> = object({
  number: count,
  direction: directionShape,
  step: oneOf("waiting", "moving", "leaving", "rollingBack"),
  from: list(count),
  to: list(count),
  awaited: list(count),
  awaitedStandbys: optional(list(count)),
  fillingStandbys: optional(list(count)),
  waitMs: optional(count),
  parts: optional(count),
  moved: optional(count),
});

export type ScalingOutcome = "done" | "rolledBack" | "failed";
const outcomeShape = oneOf("done", "rolledBack", "failed");

/** How a change ended, and why it did not do what was asked. */
export type ScalingEnd = { readonly number: number; readonly outcome: ScalingOutcome; readonly reason?: string | undefined };
export const scalingEndShape: Check<ScalingEnd> = object({
  number: count,
  outcome: outcomeShape,
  reason: optional(text),
});

/** As ScaleRequest, of workers. Those that leave are not hurried by `timeoutMs`. */
export type WorkersRequest = ScaleRequest;
export const workersRequestShape: Check<WorkersRequest> = scaleRequestShape;

/** How the last change of the number of workers ended, and why it did not do what was asked. */
export type WorkersEnd = Omit<ScalingEnd, "number">;

export type WorkersReport = {
  /** Workers that are there, without those that were asked to leave. */
  readonly presentCount: number;
  /** How many there are to be; left out when nothing is asked for any more. */
  readonly wishedCount?: number | undefined;
  /** How much longer those that have not come are waited for. */
  readonly waitMs?: number | undefined;
  /** The change is being taken back. */
  readonly isBack?: boolean | undefined;
  /** How the last change ended; left out while one is under way, and before the first. */
  readonly ended?: WorkersEnd | undefined;
  /** Ranks that were asked to leave, and have not left yet. */
  readonly leaving: readonly number[];
  /** How few and how many there may be. */
  readonly countMin: number;
  readonly countMax: number;
};
export const workersReportShape: Check<WorkersReport> = object({
  presentCount: count,
  wishedCount: optional(count),
  waitMs: optional(count),
  isBack: optional(flag),
  ended: optional(object({ outcome: outcomeShape, reason: optional(text) })),
  leaving: list(count),
  countMin: count,
  countMax: count,
});

const ratio: Check<number> = (value, path) => {
  if (typeof value !== "number" || value < 0) throw badRequest(`${path} must be a number from 0 up`);
  return value;
};

export type ScalingReport = {
  /** How many servers there are to be when the change under way is done. */
  readonly wishedCount: number;
  /** How many parts each server owns, by rank. */
  readonly shares: readonly { readonly rank: number; readonly parts: number }[];
  /** How much the fullest server has of what each would have if all had the same; left out for one server. */
  readonly skew?: number | undefined;
  readonly current?: ScalingView | undefined;
  /** The numbers of changes that come later. */
  readonly queued: readonly number[];
  /** The last ones that ended, the newest last. */
  readonly ended: readonly ScalingEnd[];
  /** Left out by a scheduler that does not know of it. */
  readonly workers?: WorkersReport | undefined;
};
export const scalingReportShape: Check<ScalingReport> = object({
  wishedCount: count,
  shares: list(object({ rank: count, parts: count })),
  skew: optional(ratio),
  current: optional(viewShape),
  queued: list(count),
  ended: list(scalingEndShape),
  workers: optional(workersReportShape),
});

/** Whether a server can take part in a change to these servers; its answer says how much it holds, and can hold. */
export type SurveyRequest = { readonly servers: readonly number[] };
export const surveyRequestShape: Check<SurveyRequest> = object({ servers: list(count) });
export type SurveyReply = { readonly stateBytes: number; readonly stateBytesMax: number };
export const surveyReplyShape: Check<SurveyReply> = object({ stateBytes: count, stateBytesMax: count });

/** All of so many servers are there: the one that hears this is waited for by nobody. */
export type SpareNotice = { readonly serverCount: number };
export const spareNoticeShape: Check<SpareNotice> = object({ serverCount: count });
