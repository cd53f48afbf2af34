// parameters — serves what makes, changes, lists and clears the parameters of this server (contracts/parameters.ts).

import { WeighbridgeError } from "../../base/errors.ts";
import {
  consistencyChange,
  consistencySurvey,
  parameterClear,
  parameterConfigure,
  parameterCreate,
  parameterNonFinite,
  parameterOrigin,
} from "../../contracts/parameters.ts";
import { decodeMode } from "../../store/consistency-json.ts";
import { type ServedFunction, serve } from "../served-function.ts";

export const PARAMETER_HANDLERS: readonly ServedFunction[] = [
  serve(parameterCreate, {
    handler: ({ parameters }, { parameter, edition, spec }) => {
      parameters.create(spec, { number: parameter, edition });
      return {};
    },
  }),
  serve(parameterOrigin, {
    handler: ({ parameters }, { parameter, name }) => ({ isRestored: parameters.get(parameter, name).isRestored }),
  }),
  serve(parameterClear, {
    handler: ({ parameters, life }, { parameter, edition, pushNumber }) => {
      if (parameters.clear(parameter, edition)) parameters.pacer.pushes.rise(life, parameter, pushNumber);
      return {};
    },
  }),
  serve(parameterConfigure, {
    handler: ({ parameters }, { parameter, settings }) => {
      parameters.configure(parameter, settings);
      return {};
    },
  }),
  serve(parameterNonFinite, {
    handler: ({ parameters }, { parameter }) => ({ ...parameters.get(parameter).nonFinite }),
  }),
  serve(consistencySurvey, {
    handler: ({ parameters }, { parameter }) => parameters.get(parameter).pace.survey,
  }),
  serve(consistencyChange, {
    handler: ({ parameters, life }, { parameter, clock, turn, consistency }) => {
      if (turn === 0) throw new WeighbridgeError("BAD_REQUEST", "a change of a consistency has a turn from 1 up");
      return { clock: parameters.get(parameter).change({ mode: decodeMode(consistency), clock, turn, worker: life.worker }) };
    },
  }),
];
