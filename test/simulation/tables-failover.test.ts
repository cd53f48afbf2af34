// tables-failover — what tables read from a standby that leads. Programs with failovers: tables-programs.test.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { idOf } from "../../src/wire/node-id.ts";
import { refill } from "./refill.ts";
import { INTEGERS, TableCluster } from "./tables.ts";

for (const consistencyModel of ["SSP", "SSPPush"] as const)
  test(`a process that added nothing since a standby was filled reads from it what it had added before (TakenUpdates.U1, ${consistencyModel})`, async () => {
    const tables = [{ rowType: 1, processCacheCapacity: 2 }];
    const simulated = await TableCluster.simulate(1, { processes: 2, tables, config: { consistencyModel } }, { replicas: 2 });
    const { cluster } = simulated;
    const threads = [0, 1].map((process) => simulated.thread(process));
    const readAll = async (rows: number): Promise<void> => {
      for (const thread of threads)
        for (let row = 0; row < rows; row++) {
          using accessor = await simulated.run(Promise.resolve(thread.getTableOrDie(0, INTEGERS).get(row)));
          assert.equal(accessor.get(0), 2, `row ${row} as thread ${thread.id} reads it`);
        }
    };
    for (let row = 0; row < 6; row++) for (const thread of threads) thread.getTableOrDie(0, INTEGERS).inc(row, 0, 1);
    for (const thread of threads) thread.globalBarrier();
    await readAll(6); // from now on the processes know what the server has taken of them
    await simulated.run(refill(cluster, 0));
    cluster.kill(idOf("server", 0));
    for (const thread of threads) thread.clock();
    await readAll(6);
  });
