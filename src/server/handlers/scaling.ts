// scaling — what the scheduler asks of a server when the servers of the job change (scaling-part.ts).

import { WeighbridgeError } from "../../base/errors.ts";
import type { JsonContract } from "../../contracts/contract.ts";
import { scalingSpare, scalingSurvey } from "../../contracts/scaling.ts";
import { nameOf, SCHEDULER_ID } from "../../wire/node-id.ts";
import type { ScalingPart } from "../scaling-part.ts";
import { type ServedFunction, serve } from "../served-function.ts";

export const SCALING_HANDLERS: readonly ServedFunction[] = [
  forScheduler(scalingSurvey, (scaling) => scaling.survey()),
  forScheduler(scalingSpare, (scaling, notice) => {
    scaling.spare(notice);
    return {};
  }),
];

/** Refuses it to others with BAD_REQUEST, and where there is no job to change, with UNSUPPORTED. */
function forScheduler<Q, R>(fn: JsonContract<Q, R>, answer: (scaling: ScalingPart, request: Q) => R): ServedFunction {
  return serve(fn, {
    handler: ({ holder: { worker }, scaling }, { body }) => {
      if (worker !== SCHEDULER_ID)
        throw new WeighbridgeError("BAD_REQUEST", `${fn.name} comes from the scheduler, not from ${nameOf(worker)}`);
      if (scaling === undefined) throw new WeighbridgeError("UNSUPPORTED", "this server has no job");
      return { body: answer(scaling, body) };
    },
  });
}
