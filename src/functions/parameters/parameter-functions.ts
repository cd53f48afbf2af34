// parameter-functions — makes, changes, lists and clears parameters on a server. Specs and settings travel as JSON: rare, small, and easy to
// compare (Hetu: ParamInit, ParamClear).

import { type PsFunction, psFunction } from "../ps-function.ts";

const parameterCreateRequest = { spec: "string" } as const;
const parameterCreateResponse = {} as const;
/** Makes the parameter, or does nothing if it is there and described alike. Throws SPEC_MISMATCH otherwise, with the differences. */
export const parameterCreate: PsFunction<typeof parameterCreateRequest, typeof parameterCreateResponse> = psFunction({
  name: "wb/parameter/create",
  request: parameterCreateRequest,
  response: parameterCreateResponse,
  handler: ({ parameters }, { spec }) => {
    parameters.create(spec);
    return {};
  },
});

const parameterOriginRequest = { parameter: "u32", name: "string" } as const;
const parameterOriginResponse = { isRestored: "bool" } as const;
/**
 * Whether this server has the parameter from a checkpoint, or from what was saved of it; otherwise somebody has made it here. The name is for a server that was
 * restarted, and has never heard of it: its errors and its log then name what is missing.
 */
export const parameterOrigin: PsFunction<typeof parameterOriginRequest, typeof parameterOriginResponse> = psFunction({
  name: "wb/parameter/origin",
  request: parameterOriginRequest,
  response: parameterOriginResponse,
  reads: true,
  handler: ({ parameters }, { parameter, name }) => ({ isRestored: parameters.get(parameter, name).isRestored }),
});

const parameterClearRequest = { parameter: "u32" } as const;
const parameterClearResponse = {} as const;
export const parameterClear: PsFunction<typeof parameterClearRequest, typeof parameterClearResponse> = psFunction({
  name: "wb/parameter/clear",
  request: parameterClearRequest,
  response: parameterClearResponse,
  handler: ({ parameters }, { parameter }) => {
    parameters.clear(parameter);
    return {};
  },
});

const parameterConfigureRequest = { parameter: "u32", settings: "string" } as const;
const parameterConfigureResponse = {} as const;
/** Changes what may change while training goes on: the learning rate and its schedule, the staleness bound. */
export const parameterConfigure: PsFunction<typeof parameterConfigureRequest, typeof parameterConfigureResponse> = psFunction({
  name: "wb/parameter/configure",
  request: parameterConfigureRequest,
  response: parameterConfigureResponse,
  handler: ({ parameters }, { parameter, settings }) => {
    parameters.configure(parameter, settings);
    return {};
  },
});

const nonFiniteRequest = { parameter: "u32" } as const;
const nonFiniteResponse = { refusedPushes: "f64", skippedPushes: "f64", zeroedElements: "f64" } as const;
/** What was pushed to the parameter on this server and was not finite, since it was made there. */
export const parameterNonFinite: PsFunction<typeof nonFiniteRequest, typeof nonFiniteResponse> = psFunction({
  name: "wb/parameter/non-finite",
  request: nonFiniteRequest,
  response: nonFiniteResponse,
  reads: true,
  handler: ({ parameters }, { parameter }) => ({ ...parameters.get(parameter).nonFinite }),
});

const parameterListRequest = {} as const;
const parameterListResponse = { specs: "string" } as const;
/** The specs of all parameters of this server as a JSON list. */
export const parameterList: PsFunction<typeof parameterListRequest, typeof parameterListResponse> = psFunction({
  name: "wb/parameter/list",
  request: parameterListRequest,
  response: parameterListResponse,
  reads: true,
  handler: ({ parameters }) => ({ specs: JSON.stringify(parameters.specs) }),
});
