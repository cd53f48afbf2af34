// built-in-functions — the functions that every server has. Guests may not call those in which workers take part
// together.

import { guestError } from "../../consistency/worker-incarnations.ts";
import { isGuest } from "../../wire/node-id.ts";
import { TENSOR_HANDLERS } from "../parameters/tensor-requests.ts";
import type { ServedFunction } from "../server-context.ts";
import { DATA_HANDLERS, GROUP_HANDLERS } from "./beside-parameters.ts";
import { SERVER_HANDLERS } from "./between-servers.ts";
import { CACHED_ROW_HANDLERS } from "./cached-rows.ts";
import { CHECKPOINT_HANDLERS } from "./checkpoints.ts";
import { PARAMETER_HANDLERS } from "./parameters.ts";
import { RAW_VALUE_HANDLERS } from "./raw-values.ts";
import { RELAYED_CALL_HANDLERS } from "./relayed-calls.ts";
import { ROW_HANDLERS } from "./rows.ts";
import { TABLE_ROW_HANDLERS } from "./table-rows.ts";

export const BUILT_IN_FUNCTIONS: readonly ServedFunction[] = [
  ...CACHED_ROW_HANDLERS,
  ...CHECKPOINT_HANDLERS,
  ...DATA_HANDLERS,
  ...GROUP_HANDLERS.map((fn) => workersOnly(fn, "is in no group of workers")),
  ...PARAMETER_HANDLERS,
  ...RAW_VALUE_HANDLERS,
  ...RELAYED_CALL_HANDLERS,
  ...ROW_HANDLERS,
  ...SERVER_HANDLERS,
  ...TABLE_ROW_HANDLERS.map((fn) => workersOnly(fn, "does not share tables with workers")),
  ...TENSOR_HANDLERS,
];

function workersOnly(fn: ServedFunction, what: string): ServedFunction {
  const handle: ServedFunction["handle"] = (context, request, call) => {
    const { worker } = context.holder;
    if (isGuest(worker)) throw guestError(worker, what);
    return fn.handle(context, request, call);
  };
  return { ...fn, handle };
}
