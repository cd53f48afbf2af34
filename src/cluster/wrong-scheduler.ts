// wrong-scheduler — what a node says when whoever listens at the scheduler's address is none it can talk with: trying again would not mend that.

import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import type { Address } from "../transport/transport.ts";

const FIX = "point DMLC_PS_ROOT_URI/DMLC_PS_ROOT_PORT (--scheduler-host/--scheduler-port) at the right place";

/** The error for it, by why it could not be talked with; undefined if that may pass. */
export function wrongScheduler(address: Address, problem: Error): WeighbridgeError | undefined {
  if (isWeighbridgeError(problem, "VERSION_MISMATCH")) return new WeighbridgeError(problem.code, problem.message, { cause: problem });
  if (!isWeighbridgeError(problem, "FOREIGN_PROTOCOL")) return undefined;
  const message = `what listens at ${address} is no Weighbridge scheduler: ${problem.message}; ${FIX}`;
  return new WeighbridgeError("SCHEDULER_UNREACHABLE", message, { cause: problem });
}
