// user-function — recognises the functions of users' own that ps-function.ts and worker-function.ts have made.

import { showValue, WeighbridgeError } from "../base/errors.ts";
import { isContract } from "./contract.ts";
import type { PsFunction } from "./ps-function.ts";
import type { WorkerFunction } from "./worker-function.ts";

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
  throw new WeighbridgeError("BAD_ARGUMENT", `what a worker serves is a function that workerFunction() made, not ${showValue(value)}`);
}
