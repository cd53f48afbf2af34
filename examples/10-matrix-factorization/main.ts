// 10-matrix-factorization — who will like what? Threads of several processes learn it together, three times: with reads
// that are always fresh, and with reads that may be 2 or 8 clocks behind. The picture shows what that buys.

import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { env } from "node:process";
import { startTableThread, TableGroup } from "weighbridge/tables";
import { linePlot } from "../staleness/line-plot.ts";
import { PAUSE_MS } from "../staleness/straggler.ts";
import { ITEMS, RANK, ratingsOf, USERS } from "./ratings.ts";
import { CURVES, DOUBLES, doubles, FLOATS, floats, HISTORY, HISTORY_COLUMNS, STALENESS, THREADS } from "./tables.ts";

const CLOCKS = Number(process.argv[2] ?? 40);
const PICTURE = process.argv[3] ?? join(import.meta.dirname, "objective.svg");

const group = new TableGroup();
group.registerRow(FLOATS, floats);
group.registerRow(DOUBLES, doubles);
const initThread = await group.init({ numTables: CURVES + 1, numLocalAppThreads: THREADS + 1 });
const rank = Math.floor(initThread / 1000);
const workers = Number(env.WEIGHBRIDGE_WORKER_COUNT) * THREADS;

for (const [id, staleness] of STALENESS.entries())
  await group.createTable(id, { rowType: FLOATS, rowCapacity: RANK, staleness, processCacheCapacity: ITEMS });
await group.createTable(HISTORY, { rowType: FLOATS, rowCapacity: HISTORY_COLUMNS, processCacheCapacity: CLOCKS + 1 });
await group.createTable(CURVES, { rowType: DOUBLES, rowCapacity: 1 + workers, processCacheCapacity: CLOCKS + 1 });
await group.createTableDone();

const threads = Array.from({ length: THREADS }, (_, index) =>
  startTableThread(group, new URL("./work.ts", import.meta.url), {
    workerData: { worker: rank * THREADS + index, workers, clocks: CLOCKS },
  }),
);
const ended = Promise.all(threads.map((thread) => once(thread, "exit"))); // rejects if one of them throws
if (rank === 0) {
  const [runs] = (await Promise.race([once(threads[0]!, "message"), ended])) as [{ objective: number; ms: number }[][]];
  const ratingCount = ratingsOf(0, 1).length;
  const series = runs.slice(1).map((points, i) => ({
    name: `staleness ${STALENESS[i + 1]}`,
    points: points.map(({ objective, ms }) => ({ x: ms / 1000, y: objective / ratingCount })),
  }));
  for (const { name, points } of series) {
    const last = points.at(-1)!;
    console.log(`${name}: objective ${points[0]!.y.toFixed(3)} → ${last.y.toFixed(4)} in ${CLOCKS} clocks and ${last.x.toFixed(2)} s`);
  }
  const texts = {
    title: "Matrix factorisation: what staleness buys",
    subtitle: `${workers} threads of ${workers / THREADS} processes, ${USERS} users × ${ITEMS} items; in every clock one thread pauses for ${PAUSE_MS} ms`,
    x: "wall time (s)",
    y: "objective per rating",
  };
  await writeFile(PICTURE, linePlot(series, texts));
}
await ended;
await group.shutDown();
