// consistency-functions — changes the consistency of a parameter while the job runs. Whoever changes it asks every server first how far its workers
// are, and then names a clock that is beyond all of them: the change begins there, on every server (spec/consistency.md, M4).

import { WeighbridgeError } from "../../base/errors.ts";
import { type PsFunction, psFunction } from "../ps-function.ts";
import { decodeMode } from "./consistency-json.ts";

const surveyRequest = { parameter: "u32" } as const;
const surveyResponse = { clock: "u32", turn: "u32" } as const;
/** The highest clock of any worker here, or of any update of the parameter, and the turn of the last change. */
export const consistencySurvey: PsFunction<typeof surveyRequest, typeof surveyResponse> = psFunction({
  name: "wb/consistency/survey",
  request: surveyRequest,
  response: surveyResponse,
  reads: true,
  handler: ({ parameters }, { parameter }) => parameters.get(parameter).pace.survey,
});

const changeRequest = { parameter: "u32", clock: "u32", turn: "u32", consistency: "string" } as const;
const changeResponse = { clock: "u32" } as const;
/** Answers the clock from which on the last change holds here: `clock`, or a later one (M2). */
export const consistencyChange: PsFunction<typeof changeRequest, typeof changeResponse> = psFunction({
  name: "wb/consistency/change",
  request: changeRequest,
  response: changeResponse,
  handler: ({ parameters, life }, { parameter, clock, turn, consistency }) => {
    if (turn === 0) throw new WeighbridgeError("BAD_REQUEST", "a change of a consistency has a turn from 1 up");
    return { clock: parameters.get(parameter).change({ mode: decodeMode(consistency), clock, turn, worker: life.worker }) };
  },
});
