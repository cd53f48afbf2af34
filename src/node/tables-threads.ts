// tables-threads — threads of the system (worker_threads) that share the tables of their process. Here they are started
// and watched; what they share, and how, is engine.

import { MessageChannel, type MessagePort, Worker, type WorkerOptions, workerData } from "node:worker_threads";
import { badArgument } from "../base/errors.ts";
import { attachThread, type SharedThread } from "../faces/tables/attached-thread.ts";
import type { TableGroup } from "../faces/tables/table-group.ts";
import type { TableRowType } from "../faces/tables/table-row-type.ts";
import type { TableThread } from "../faces/tables/table-thread.ts";
import type { ThreadPort } from "../worker/tables/thread-line.ts";
import { realClock } from "./real-clock.ts";

/** Under this name a thread finds what it was given in its workerData. */
const GIVEN = "weighbridgeTables";

/** What Node's Worker takes. */
export type ThreadStart = WorkerOptions;

type Given = { readonly shared: SharedThread; readonly port: MessagePort };

/**
 * Starts a thread that uses the tables of this process: `module` calls `attachTableThread`. However it ends, no thread
 * waits for it then; what it added is sent. Throws COUNT_MISMATCH when as many have registered as numLocalAppThreads
 * says, UNSUPPORTED where async tasks use the tables.
 */
export function startTableThread(group: TableGroup, module: URL | string, worker: ThreadStart = {}): Worker {
  const { port1, port2 } = new MessageChannel();
  const { shared, ended } = group.openThread(port1 as unknown as ThreadPort);
  const given: Given = { shared, port: port2 };
  const thread = new Worker(module, {
    ...worker,
    workerData: { ...(worker.workerData as object | undefined), [GIVEN]: given },
    transferList: [...(worker.transferList ?? []), port2],
  });
  thread.once("exit", () => void ended());
  return thread;
}

/**
 * In a thread that `startTableThread` started: registers it, and waits until all of its process have come. `rowTypes`
 * are those of the tables, by the ids of registerRow().
 */
export async function attachTableThread(rowTypes: Readonly<Record<number, TableRowType>>): Promise<TableThread> {
  const given = (workerData as Readonly<Record<string, Given | undefined>> | null)?.[GIVEN];
  if (given === undefined) throw badArgument("attachTableThread() works only in a thread that startTableThread() started");
  const { shared, port } = given;
  const types = new Map(Object.entries(rowTypes).map(([id, rowType]) => [Number(id), rowType]));
  return await attachThread(shared, port as unknown as ThreadPort, realClock(), types);
}
