// attached-thread — a thread of the system that uses the tables of its process: it has been given their memory
// (`TableGroup.openThread`) and a port to the thread that opened the group.

import type { Clock } from "../../base/clock.ts";
import { Deferred } from "../../base/deferred.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import type { RowUpdates } from "../../worker/tables/row-updates.ts";
import { SharedTable, type SharedTableMemory, type ThreadReply, type ThreadRequest } from "../../worker/tables/shared-table.ts";
import type { ThreadPort } from "../../worker/tables/system-thread.ts";
import type { TableRowType } from "./table-row-type.ts";
import { TableCounters } from "./table-statistics.ts";
import { TableThread } from "./table-thread.ts";

/** Plain data that is posted to the thread. */
export type SharedThread = {
  readonly number: number;
  /** Of each table also the id of its row type, and the memory in which the thread counts (TableCounters). */
  readonly tables: readonly (SharedTableMemory & { readonly rowType: number; readonly counters: SharedArrayBuffer })[];
};

export type AttachOptions = {
  readonly shared: SharedThread;
  readonly port: ThreadPort;
  readonly clock: Clock;
  /** As they were registered. */
  readonly rowTypes: ReadonlyMap<number, TableRowType>;
};

/** Registers this thread, and waits until all of the process have come. Throws UNKNOWN_PLUG_IN. */
export async function attachThread({ shared, port, clock, rowTypes }: AttachOptions): Promise<TableThread> {
  const member = { clock: 0 };
  const reads = new Map<number, Deferred<number>>();
  let tickets = 0;
  const post = (request: ThreadRequest): void => port.postMessage(request);
  const line = {
    ...{ thread: shared.number, clock, post },
    ticketOf: (told: Deferred<number>): number => {
      reads.set(++tickets, told);
      return tickets;
    },
  };
  const tables = shared.tables.map((memory) => {
    const rowType = rowTypes.get(memory.rowType);
    if (rowType === undefined)
      throw new WeighbridgeError(
        "UNKNOWN_PLUG_IN",
        `${memory.name} has rows of type ${memory.rowType}: give it to the thread as to registerRow()`,
      );
    const rows = new SharedTable(memory, rowType as RowUpdates, member, line);
    return { id: memory.id, rowType, rowCapacity: memory.rowCapacity, rows, counters: new TableCounters(memory.counters) };
  });
  const started = new Deferred<Extract<ThreadReply, { readonly kind: "start" }>>();
  port.onmessage = ({ data }) => {
    const reply = data as ThreadReply;
    if (reply.kind === "start") started.resolve(reply);
    else if (reply.kind === "refused") {
      const found = tables.find(({ id }) => id === reply.table);
      if (found !== undefined) found.rows.failure = new WeighbridgeError(reply.code, reply.message);
    } else {
      const told = reads.get(reply.ticket);
      reads.delete(reply.ticket);
      if (reply.kind === "row") told?.resolve(reply.slot);
      else told?.reject(new WeighbridgeError(reply.code, reply.message));
    }
  };
  const { clock: start, stalenessMax, threadId } = await started.promise;
  member.clock = start;
  for (const { rows } of tables) rows.moved();
  const group = {
    stalenessMax,
    clockEnded: () => {
      member.clock++;
      post({ kind: "clock" });
    },
    left: () => {
      post({ kind: "leave" });
      port.close(); // what was posted arrives
    },
  };
  return new TableThread(group, threadId, member, tables);
}
