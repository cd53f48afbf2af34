// tables-statistics — where the statistics of tables go: to the subscribers of a diagnostics channel of Node, clock
// by clock, and into a file at the end.

import { channel } from "node:diagnostics_channel";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { reasonOf, WeighbridgeError } from "../base/errors.ts";
import type { ReportSink, TableReport } from "../worker/tables/table-statistics.ts";

const reports = channel("weighbridge:tables");

/** Publishes a TableReport for each clock of the process and one at the end. Costs nothing without subscribers. */
export const statisticsChannel: ReportSink = {
  get isWanted() {
    return reports.hasSubscribers;
  },
  take: (report: TableReport) => reports.publish(report),
};

/**
 * Writes the statistics of a process to `<statsPath>.<rank>.yaml`. Throws BAD_ARGUMENT: at once if there is no such
 * folder and none can be made, later if the file cannot be written.
 */
export async function statisticsFile(statsPath: string): Promise<(rank: number, text: string) => Promise<void>> {
  const refuse = (path: string, cause: unknown): WeighbridgeError =>
    new WeighbridgeError("BAD_ARGUMENT", `statsPath: statistics cannot be written to ${path}: ${reasonOf(cause)}`, { cause });
  await mkdir(dirname(statsPath), { recursive: true }).catch((cause: unknown) => {
    throw refuse(statsPath, cause);
  });
  return async (rank, text) => {
    const path = `${statsPath}.${rank}.yaml`;
    await writeFile(path, text).catch((cause: unknown) => {
      throw refuse(path, cause);
    });
  };
}
