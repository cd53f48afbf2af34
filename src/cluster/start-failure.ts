// start-failure — a node that cannot start. If its port is taken, say, it reports to the scheduler why, so that the others end with that reason instead of
// waiting for it; that report is never in the way of the node's own error. If what listens at the scheduler's address is no scheduler, the node gives up.

import type { Clock } from "../base/clock.ts";
import { isWeighbridgeError, reasonOf, WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { randomToken } from "../base/random.ts";
import { REGISTER } from "../contracts/control.ts";
import { ask } from "../peer/call-function.ts";
import type { Peer } from "../peer/peer.ts";
import type { Address } from "../transport/transport.ts";
import { SCHEDULER_ID } from "../wire/node-id.ts";
import type { RegisterRequest } from "../wire/register.ts";

export type StartFailure = {
  /** Of a node that has not registered. */
  readonly peer: Peer;
  readonly clock: Clock;
  readonly log: Log;
  readonly schedulerAddress: Address;
  /** How long to try at most; as long as nodes that are started together need to find each other when left out. */
  readonly deadlineMs?: number | undefined;
  /** Who it would have been. */
  readonly node: Pick<RegisterRequest, "role" | "rank" | "label" | "serverCount" | "workerCount">;
};

/** Nodes that are started together find each other sooner. */
const TELL_DEADLINE_MS = 5000;

/** Tells the scheduler that this node does not come, and why. Returns when it knows, or cannot be told in time; never throws. */
export async function tellStartFailure(told: StartFailure, error: WeighbridgeError): Promise<void> {
  const { peer, clock, log, schedulerAddress, node, deadlineMs = TELL_DEADLINE_MS } = told;
  const { code, message } = error;
  const channel = peer.dial(SCHEDULER_ID, schedulerAddress, 0);
  const request = { ...node, address: "", token: randomToken(), resume: undefined, failure: { code, message } };
  try {
    await ask(channel, REGISTER, request, clock, { deadlineMs });
  } catch (thrown) {
    log.debug("what the scheduler says to a node that does not come", { reason: reasonOf(thrown) }); // its answer is the error that it was told
  } finally {
    peer.drop(channel, error);
  }
}

const FIX = "point DMLC_PS_ROOT_URI/DMLC_PS_ROOT_PORT (--scheduler-host/--scheduler-port) at the right place";

/** The error for it, by why it could not be talked with; undefined if that may pass. */
export function wrongScheduler(address: Address, problem: Error): WeighbridgeError | undefined {
  if (isWeighbridgeError(problem, "VERSION_MISMATCH")) return new WeighbridgeError(problem.code, problem.message, { cause: problem });
  if (!isWeighbridgeError(problem, "FOREIGN_PROTOCOL")) return undefined;
  const message = `what listens at ${address} is no Weighbridge scheduler: ${problem.message}; ${FIX}`;
  return new WeighbridgeError("SCHEDULER_UNREACHABLE", message, { cause: problem });
}
