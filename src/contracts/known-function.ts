// known-function — recognises functions among what users hand over and what their modules export.

import { badArgument, showValue } from "../base/errors.ts";
import { FunctionSchema } from "../wire/function-schema.ts";
import type { Contract } from "./contract.ts";
import type { PsFunction } from "./ps-function.ts";
import type { WorkerFunction } from "./worker-function.ts";

/** Whether something that a caller hands over is a contract, with or without a handler. */
export function isContract(value: unknown): value is Contract {
  return typeof value === "object" && value !== null && "request" in value && value.request instanceof FunctionSchema;
}

/** Whether something that a module exports is a function of servers. */
export function isPsFunction(value: unknown): value is PsFunction {
  return isContract(value) && value.target === "server" && "isInPlace" in value;
}

/** Whether something that a module exports is a function of workers. */
export function isWorkerFunction(value: unknown): value is WorkerFunction {
  return isContract(value) && value.target === "worker" && "isInPlace" in value;
}

/** Throws BAD_ARGUMENT for what a caller hands over and `workerFunction` has not made. */
export function checkWorkerFunction(value: unknown): void {
  if (isWorkerFunction(value)) return;
  throw badArgument(`what a worker serves is a function that workerFunction() made, not ${showValue(value)}`);
}
