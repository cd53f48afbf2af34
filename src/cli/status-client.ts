// status-client — asks a scheduler who is there, without being a node of the cluster.

import type { Clock } from "../base/clock.ts";
import { Deferred } from "../base/deferred.ts";
import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { SILENT_LOG } from "../base/log.ts";
import { wrongScheduler } from "../cluster/start-failure.ts";
import { STATUS } from "../contracts/control.ts";
import { ask } from "../peer/call-function.ts";
import { Peer } from "../peer/peer.ts";
import { PlainReadBuffers } from "../peer/plain-memory.ts";
import type { Address, Transport } from "../transport/transport.ts";
import type { StatusReply } from "../wire/control.ts";
import { SCHEDULER_ID } from "../wire/node-id.ts";

export type StatusRequest = {
  readonly address: Address;
  readonly deadlineMs: number;
  readonly transport: Transport;
  readonly clock: Clock;
};

/** Throws SCHEDULER_UNREACHABLE: at once when nobody listens there, after `deadlineMs` when whoever does says nothing sensible. */
export async function askStatus({ address, deadlineMs, transport, clock }: StatusRequest): Promise<StatusReply> {
  const peer = new Peer({ transport, clock, log: SILENT_LOG, readBuffers: new PlainReadBuffers(), connectDeadlineMs: deadlineMs });
  const failed = new Deferred<never>();
  peer.events = {
    unreachable: (_, error) => failed.reject(whyNot(address, error)),
    refused: (_, error) => failed.reject(whyNot(address, error)),
  };
  try {
    const scheduler = peer.dial(SCHEDULER_ID, address, 0);
    return await Promise.race([ask(scheduler, STATUS, {}, clock, { deadlineMs }), failed.promise]);
  } catch (thrown) {
    if (!isWeighbridgeError(thrown, "DEADLINE")) throw thrown;
    throw unreachable(address, `something listens there, but it did not answer as a scheduler within ${deadlineMs} ms`);
  } finally {
    await peer.close();
  }
}

function whyNot(address: Address, problem: Error): WeighbridgeError {
  return wrongScheduler(address, problem) ?? unreachable(address, problem.message, problem);
}

function unreachable(address: Address, problem: string, cause?: Error): WeighbridgeError {
  const fix = "start one there, or name the right place with --scheduler-host and --scheduler-port";
  return new WeighbridgeError("SCHEDULER_UNREACHABLE", `no scheduler at ${address} (${problem}); ${fix}`, { retryable: true, cause });
}
