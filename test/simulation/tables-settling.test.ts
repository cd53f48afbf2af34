// tables-settling — Goal: a process that only adds to a table, and reads nothing, keeps a bounded number of the updates
// that servers have taken: they are asked now and then what that is.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { MemoryCluster } from "../../src/testing/memory-cluster.ts";
import { ProcessTable } from "../../src/worker/tables/process-table.ts";
import { spanOf } from "../../src/worker/tables/row-updates.ts";
import { FLOATS } from "./tables.ts";

const CLOCKS = 1000;
/** Half of what may be kept before servers are asked again, and what is under way meanwhile. */
const UNSETTLED_MOST = 130;

for (const isExact of [false, true])
  test(`${CLOCKS} clocks of a process that reads nothing leave few updates that may not be in rows (exact: ${isExact})`, async () => {
    const cluster = await MemoryCluster.start({ serverCount: 2, workerCount: 1 });
    const session = await cluster.run(Session.open(cluster.worker().node));
    const consistency = isExact ? ({ bsp: true, reduce: "sum", staleness: 2 } as const) : ({ ssp: 2 } as const);
    const embedding = await cluster.run(session.embedding("rows", { dim: 2, consistency, optimizer: { type: "sum" } }));
    const table = embedding.openWith(
      (client) =>
        new ProcessTable({
          ...{ client, updates: FLOATS, elements: 2, slotCount: 4, oplogRows: 4, staleness: 2, isExact, secret: 1 },
          ...{ subscribes: false, sendsWholeRows: false, replays: true },
        }),
    );
    let most = 0;
    for (let clock = 0; clock < CLOCKS; clock++) {
      for (const row of [1, 2, 3]) table.updates.add(row, clock, spanOf(Float32Array.of(1, 0)));
      table.updates.send(clock);
      session.clock();
      await cluster.run(table.updates.idle());
      most = Math.max(most, table.unsettledCount);
    }
    assert.ok(most <= UNSETTLED_MOST, `${most} requests were kept at a time`);
    const slot = await cluster.run(table.read(2, session.clocks));
    assert.equal(table.placeOf(slot).cells[slot * 2], CLOCKS);
  });
