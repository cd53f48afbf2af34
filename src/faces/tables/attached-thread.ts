// attached-thread — a thread of the system that uses the tables of its process: it has been given their memory
// (`TableGroup.openThread`) and a port to the thread that opened the group.

import type { Clock } from "../../base/clock.ts";
import type { RowUpdates } from "../../worker/tables/row-updates.ts";
import { SharedTable, type SharedTableMemory } from "../../worker/tables/shared-table.ts";
import { ThreadLine, type ThreadPort } from "../../worker/tables/thread-line.ts";
import type { CheckedTableConfig } from "./table-config.ts";
import { rowTypeOf, type TableRowType } from "./table-row-type.ts";
import { TableThread } from "./table-thread.ts";

/** Plain data that is posted to the thread. */
export type SharedThread = {
  readonly number: number;
  readonly memory: readonly SharedTableMemory[];
  /** By table. */
  readonly configs: ReadonlyMap<number, CheckedTableConfig>;
};

/**
 * Registers this thread, and waits until all of the process have come. `rowTypes` are as they were registered. Throws
 * UNKNOWN_PLUG_IN.
 */
export async function attachThread(
  { number, memory, configs }: SharedThread,
  port: ThreadPort,
  clock: Clock,
  rowTypes: ReadonlyMap<number, TableRowType>,
): Promise<TableThread> {
  const line = new ThreadLine(number, port, clock);
  const typeOf = (id: number): TableRowType => rowTypeOf(id, (configs.get(id) as CheckedTableConfig).rowType, rowTypes);
  const tables = new Map(memory.map((one) => [one.id, new SharedTable(one, typeOf(one.id) as RowUpdates, line)]));
  line.onRefused = (table, error) => {
    const refused = tables.get(table);
    if (refused !== undefined) refused.failure = error;
  };
  const { stalenessMax, threadId } = await line.started.promise;
  for (const rows of tables.values()) rows.moved();
  const group = { stalenessMax, clockEnded: () => line.clockEnded(), left: () => line.leave() };
  return new TableThread({ group, id: threadId, member: line.member, rows: tables, configs, rowTypes });
}
