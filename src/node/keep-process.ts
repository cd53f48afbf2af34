// keep-process — for how long the session of a worker keeps its process. connect.ts hands it to the worker's root, and
// embedded-cluster.ts to its workers.
//
// Sockets and timers of the node do not keep the process (backgroundClock of real-clock.ts,
// SocketTransportOptions.isBackground). A timer here does, while something of the session is open. It looks now and
// then, and once more when nothing else keeps the process: so a request costs nothing. Nodes of the kv face wait for
// requests of others: their sockets keep the process.
//
// Invariants:
//   KeepProcess.P1. The process stays while a call of the session is open, an update has not left, a function is
//       served, or an operation among the workers is open. An open collective alone keeps no process: nothing else runs
//       that could call its next operation, and the others learn from the end of the process that it takes no part.
//   KeepProcess.P2. It stays while a listener waits for this worker to be asked to leave (the event "leaving" of its
//       session). Listeners of other events keep no process.
//   KeepProcess.P3. Before the process ends, what its session keeps back of updates is sent, as `close()` would. What
//       cannot be sent, as when the script calls process.exit(), is a warning: no update is lost in silence.

import { reasonOf } from "../base/errors.ts";
import type { WorkerNode } from "../worker/worker-node.ts";
import { beforeExit, exit } from "./process-events.ts";

/** How late a process may end that nothing keeps any more. */
const LOOK_MS = 100;

/** Keeps the process while this node is busy or listens (KeepProcess.P1, KeepProcess.P2), until it has closed. */
export function keepProcess(node: WorkerNode): void {
  let isSending = false;
  let hasFailed = false;
  const timer = setInterval(look, LOOK_MS);
  function look(): void {
    if (isSending || node.isBusy || node.awaitsLeaving) timer.ref();
    else timer.unref();
  }
  /** KeepProcess.P3 */
  async function send(): Promise<void> {
    isSending = true;
    try {
      await node.held?.sendHeld();
    } catch (thrown) {
      hasFailed = true;
      node.log.error("updates that were held back are lost: the session was not closed", { reason: reasonOf(thrown) });
    } finally {
      isSending = false;
    }
  }
  const stops = [
    beforeExit.on(() => {
      if (!isSending && !hasFailed && !node.isBusy && node.held?.hasHeld === true) void send();
      look();
    }),
    exit.on(() => {
      if (!hasFailed && node.held?.hasHeld === true)
        node.log.error("updates that were held back are lost: the process ended and the session was not closed");
    }),
  ];
  const end = (): void => {
    clearInterval(timer);
    for (const stop of stops) stop();
  };
  node.closed.then(end, end);
}

/** Keeps the process until this has settled. */
export async function keepProcessFor<T>(work: Promise<T>): Promise<T> {
  const timer = setInterval(() => {}, LOOK_MS);
  try {
    return await work;
  } finally {
    clearInterval(timer);
  }
}
