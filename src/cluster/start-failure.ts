// start-failure — a node that cannot start, say because its port is taken, reports that to the scheduler, so that the
// others end with that reason instead of waiting; the node's own error comes first. A node also gives up if what
// listens at the scheduler's address is no scheduler.

import type { Clock } from "../base/clock.ts";
import { isWeighbridgeError, reasonOf, WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { randomToken } from "../base/random.ts";
import { REGISTER } from "../contracts/control.ts";
import { callJson } from "../peer/call-function.ts";
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
  readonly otherSchedulers?: readonly Address[] | undefined;
  /** How long to try at most; left out: as long as nodes that are started together need to find each other. */
  readonly timeoutMs?: number | undefined;
  /** The registration that it would have made. */
  readonly node: Pick<RegisterRequest, "role" | "rank" | "label" | "serverCount" | "workerCount">;
};

/** Nodes that are started together find each other sooner. */
const REPORT_DEADLINE_MS = 5000;

/** Reports to the scheduler why this node does not come. Returns when that is done, or takes too long; never throws. */
export async function reportStartFailure(start: StartFailure, error: WeighbridgeError): Promise<void> {
  const { peer, clock, log, schedulerAddress, otherSchedulers, node, timeoutMs = REPORT_DEADLINE_MS } = start;
  const { code, message } = error;
  const channel = peer.dial(SCHEDULER_ID, schedulerAddress, 0, { others: otherSchedulers ?? [] });
  const request = { ...node, address: "", token: randomToken(), resume: undefined, failure: { code, message } };
  try {
    await callJson(channel, REGISTER, request, clock, { timeoutMs });
  } catch (thrown) {
    // the reported error
    log.debug("the scheduler's answer to a node that does not come", { reason: reasonOf(thrown) });
  } finally {
    peer.drop(channel, error);
  }
}

/** For a node that looks for its scheduler in the wrong place. */
export const CORRECT_THE_ADDRESS =
  "correct the address: connect(address), --scheduler-host and --scheduler-port, or WEIGHBRIDGE_SCHEDULER_HOST and WEIGHBRIDGE_SCHEDULER_PORT (DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT of ps-lite)";

/** The error for a scheduler that cannot be talked with; undefined if that may pass. */
export function wrongScheduler(address: Address, problem: Error): WeighbridgeError | undefined {
  if (isWeighbridgeError(problem, "VERSION_MISMATCH")) return new WeighbridgeError(problem.code, problem.message, { cause: problem });
  if (!isWeighbridgeError(problem, "FOREIGN_PROTOCOL")) return undefined;
  const message = `what listens at ${address} is no Weighbridge scheduler: ${problem.message}; ${CORRECT_THE_ADDRESS}`;
  return new WeighbridgeError("SCHEDULER_UNREACHABLE", message, { cause: problem });
}
