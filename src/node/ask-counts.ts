// ask-counts — asks a scheduler how many servers and workers its job has: a worker that knows an address alone has to
// name the same counts as all others when it registers.

import { Deferred, type WaitOptions, waitFor } from "../base/deferred.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { incompleteError } from "../cluster/scheduler-calls.ts";
import { SchedulerWait, schedulerText } from "../cluster/scheduler-wait.ts";
import { wrongScheduler } from "../cluster/start-failure.ts";
import { STATUS } from "../contracts/control.ts";
import { callJson } from "../peer/call-function.ts";
import { Peer } from "../peer/peer.ts";
import { PlainReadBuffers } from "../peer/request-assembly.ts";
import { SCHEDULER_ID } from "../wire/node-id.ts";
import { schedulerAddresses } from "./config/node-addresses.ts";
import type { NodeConfig } from "./config/node-config.ts";
import { realClock } from "./real-clock.ts";
import { SocketTransport } from "./transport/socket-transport.ts";

export type JobCounts = Pick<NodeConfig, "serverCount" | "workerCount">;

/**
 * Waits for the scheduler as a worker's start does. Throws SCHEDULER_UNREACHABLE after `startTimeoutMs`, or if
 * something else listens there, VERSION_MISMATCH, DEADLINE and ABORTED.
 */
export async function askCounts(config: NodeConfig, log: Log, wait: WaitOptions): Promise<JobCounts> {
  const [first, ...otherSchedulers] = schedulerAddresses(config);
  const schedulerAddress = schedulerText({ schedulerAddress: first, otherSchedulers });
  const clock = realClock();
  const peer = new Peer({ transport: new SocketTransport({ clock, log }), clock, log, readBuffers: new PlainReadBuffers() });
  const watch = new SchedulerWait({ clock, log, schedulerAddress, startTimeoutMs: config.startTimeoutMs, loss: () => undefined });
  const failed = new Deferred<never>();
  peer.events = {
    unreachable: (_, error) => {
      watch.problem = error.message;
      const wrong = wrongScheduler(first, error);
      if (wrong !== undefined) failed.reject(wrong);
    },
    refused: (_, error) => failed.reject(error),
  };
  const channel = peer.dial(SCHEDULER_ID, first, 0, { others: otherSchedulers });
  try {
    watch.noticeAbsence(channel);
    watch.start({ isLinked: false }, failed.reject);
    const answer = Promise.race([callJson(channel, STATUS, {}, clock), failed.promise]);
    const { serverCount, workerCount } = await waitFor(answer, `the scheduler at ${schedulerAddress}`, clock, wait);
    return { serverCount, workerCount };
  } catch (thrown) {
    throw isWeighbridgeError(thrown, "DEADLINE") && channel.link === undefined ? incompleteError(thrown, watch.absence) : thrown;
  } finally {
    watch.close();
    await peer.close();
  }
}
