// worker-process — what the process of a worker does when it ends. For how long a session keeps it is in
// keep-process.ts.
//
// Invariants:
//   WorkerProcess.P2. A process that ends while its node has not left says so as its last act, to the scheduler and to
//       the launcher. Where it cannot, as when it is killed, its silence tells.

import { nameOf } from "../wire/node-id.ts";
import type { WorkerNode } from "../worker/worker-node.ts";
import { exit } from "./process-events.ts";
import { tellUnclosed } from "./unclosed-worker.ts";

/**
 * WorkerProcess.P2, until the node leaves. `isAwaited`: another process is started with its rank, unless a launcher
 * knows better. A failure that ends the whole job is the launcher's to tell: it knows the reason.
 */
export function sayProcessEnds(node: WorkerNode, isAwaited: boolean): void {
  const stop = exit.on((exitCode) => {
    const told = node.role === "guest" ? { isAwaited: false, isTold: false } : tellUnclosed(nameOf(node.id), isAwaited);
    if (exitCode === 0 || told.isAwaited || !told.isTold) node.processEnds({ exitCode, isAwaited: told.isAwaited });
  });
  node.registerExitCallback(stop);
}
