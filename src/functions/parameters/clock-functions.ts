// clock-functions — a worker's iterations, as servers count them: join the clock set, finish a clock, leave, and ask what a read waits for. CLOCK travels behind everything
// the worker sent before it, so that a server that hears of the end of a clock has its updates (spec/consistency.md, W8).

import { type PsFunction, psFunction } from "../ps-function.ts";

const clockJoinRequest = {} as const;
const clockJoinResponse = { clock: "u32" } as const;
/** Answers the clock at which the worker stands on this server. */
export const clockJoin: PsFunction<typeof clockJoinRequest, typeof clockJoinResponse> = psFunction({
  name: "wb/clock/join",
  request: clockJoinRequest,
  response: clockJoinResponse,
  handler: ({ parameters, life }) => {
    const join = (): { readonly clock: number } => ({ clock: parameters.pacer.join(life) });
    const restored = parameters.whenRestored();
    return restored === undefined ? join() : restored.then(join);
  },
});

const clockAdvanceRequest = { clock: "u32" } as const;
const clockAdvanceResponse = {} as const;
/** The worker has finished all clocks before this one. */
export const clockAdvance: PsFunction<typeof clockAdvanceRequest, typeof clockAdvanceResponse> = psFunction({
  name: "wb/clock/advance",
  request: clockAdvanceRequest,
  response: clockAdvanceResponse,
  handler: ({ parameters, life }, { clock }) => {
    parameters.pacer.advance(life, clock);
    return {};
  },
});

const clockLeaveRequest = {} as const;
const clockLeaveResponse = {} as const;
/** The worker leaves in good order: nobody waits for it until it joins again. */
export const clockLeave: PsFunction<typeof clockLeaveRequest, typeof clockLeaveResponse> = psFunction({
  name: "wb/clock/leave",
  request: clockLeaveRequest,
  response: clockLeaveResponse,
  handler: ({ parameters, life }) => {
    parameters.pacer.leave(life);
    return {};
  },
});

const clockWaitRequest = { parameter: "u32" } as const;
const clockWaitResponse = { waits: "string" } as const;
/** What the worker's reads of a parameter wait for on this server, in words; "" when none waits. Asked when a caller's deadline has passed. */
export const clockWait: PsFunction<typeof clockWaitRequest, typeof clockWaitResponse> = psFunction({
  name: "wb/clock/wait",
  request: clockWaitRequest,
  response: clockWaitResponse,
  reads: true,
  handler: ({ parameters, life }, { parameter }) => ({ waits: parameters.pacer.describeWait(life.worker, parameter) ?? "" }),
});
