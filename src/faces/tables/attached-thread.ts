// attached-thread — a thread of the system that uses the tables of its process: it has been given their memory
// (`TableGroup.openThread`) and a port to the thread that opened the group.

import type { Clock } from "../../base/clock.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import type { RowUpdates } from "../../worker/tables/row-updates.ts";
import { SharedTable, type SharedTableMemory } from "../../worker/tables/shared-table.ts";
import { TableCounters } from "../../worker/tables/table-statistics.ts";
import { ThreadLine, type ThreadPort } from "../../worker/tables/thread-line.ts";
import type { TableRowType } from "./table-row-type.ts";
import { TableThread } from "./table-thread.ts";

/** Plain data that is posted to the thread. */
export type SharedThread = {
  readonly number: number;
  /** Of each table also the id of its row type, and the memory in which the thread counts (TableCounters). */
  readonly tables: readonly (SharedTableMemory & {
    readonly rowType: number;
    readonly rowCapacity: number;
    readonly counters: ArrayBufferLike;
  })[];
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
  const line = new ThreadLine(shared.number, port, clock);
  const tables = shared.tables.map(({ rowCapacity, counters, rowType: typeId, ...memory }) => {
    const rowType = rowTypes.get(typeId);
    if (rowType === undefined)
      throw new WeighbridgeError("UNKNOWN_PLUG_IN", `${memory.name} has rows of type ${typeId}: give it to the thread as to registerRow()`);
    const rows = new SharedTable(memory, rowType as RowUpdates, line);
    return { id: memory.id, rowType, rowCapacity, rows, counters: new TableCounters(counters) };
  });
  line.onRefused = (table, error) => {
    for (const { id, rows } of tables) if (id === table) rows.failure = error;
  };
  const { stalenessMax, threadId } = await line.started.promise;
  for (const { rows } of tables) rows.moved();
  const group = { stalenessMax, clockEnded: () => line.clockEnded(), left: () => line.leave() };
  return new TableThread(group, threadId, line.member, tables);
}
