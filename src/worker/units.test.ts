// Goal: a plain loop over units does every unit, makes no other worker wait for a clock, and gives back what it has not
// done, however it is left.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import { temporaryFolder } from "../../test/support/checkpoint-stage.ts";
import { Session } from "../api/session.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import { EmbeddedCluster } from "../node/embedded-cluster.ts";
import { SimCluster } from "../testing/sim-cluster.ts";

const WAIT = { timeoutMs: 20_000 } as const;
const FREE = { epoch: 0, partCount: 1, assignment: "free", idleMs: 5, ...WAIT } as const;
const ONE = Float32Array.of(1);

function bothOf({ sessions: [one, two] }: EmbeddedCluster): readonly [Session, Session] {
  assert.ok(one !== undefined && two !== undefined);
  return [one, two];
}

test("a worker without a unit ends clocks while the loop of another one needs them (Units.L1)", async () => {
  for (const assignment of ["free", "even"] as const) {
    await using cluster = await EmbeddedCluster.start({ workers: 2 });
    let unitCount = 0;
    const run = async (session: Session): Promise<void> => {
      const w = await session.tensor("w", { shape: [1], consistency: "bsp", optimizer: "sum" });
      const units = session.units("train", { ...FREE, assignment, batchCount: 1 });
      for await (const unit of units) {
        unitCount++;
        for (let step = 0; step < 5; step++) {
          await w.push(ONE, WAIT);
          session.clock();
          await w.pull(WAIT); // waits for the clock of the worker that has no unit
        }
        unit.done();
      }
      assert.equal(units.isOver, true);
    };
    await Promise.all(cluster.sessions.map(run));
    assert.equal(unitCount, 1, assignment);
  }
});

test("a loop without clocks ends none, so a checkpoint of an idle worker waits for nobody (Units.L2)", async () => {
  using folder = temporaryFolder();
  await using cluster = await EmbeddedCluster.start({ workers: 2, checkpointDir: folder.path });
  const [busy, idle] = bothOf(cluster);
  const w = await busy.tensor("w", { shape: [1], optimizer: "sum" });
  await idle.tensor("w");
  const taken = Promise.withResolvers<void>();
  const work = async (): Promise<void> => {
    for await (const unit of busy.units("train", { ...FREE, batchCount: 1 })) {
      await w.push(ONE);
      await taken.promise;
      unit.done();
    }
  };
  const working = work();
  while ((await w.pull())[0] === 0) await sleep(1);
  const waiting = (async (): Promise<void> => {
    for await (const unit of idle.units("train", { ...FREE, batchCount: 1 })) unit.done();
  })();
  await sleep(50);
  assert.equal(idle.clocks, 0);
  await idle.checkpoint(WAIT).saved;
  taken.resolve();
  await Promise.all([working, waiting]);
  assert.deepEqual([busy.clocks, idle.clocks], [0, 0]);
});

test("in rounds the loop ends the clocks: every batch is one round, also for those that have no share of it", async () => {
  for (const partCount of [6, 1]) {
    await using cluster = await EmbeddedCluster.start({ workers: 3 });
    const batchCount = 20;
    const clocks = Array.from({ length: batchCount }, () => new Set<number | undefined>());
    const run = async (session: Session): Promise<number> => {
      const w = await session.tensor("w", { shape: [1], optimizer: { type: "sum" }, consistency: "bsp" });
      const epoch = { epoch: 0, batchCount, partCount, assignment: "rounds", idleMs: 5, ...WAIT } as const;
      for await (const unit of session.units("train", epoch)) {
        assert.deepEqual([...(await w.pull(WAIT))], [unit.batch * partCount], "all batches before this one, whole");
        await w.push(Float32Array.of(unit.parts), WAIT);
        clocks[unit.batch]?.add(unit.clock);
        unit.done();
      }
      return session.clocks;
    };
    const ended = await Promise.all(cluster.sessions.map(run));
    assert.deepEqual(
      clocks.map(({ size }) => size),
      Array(batchCount).fill(1),
    );
    assert.deepEqual(ended, Array(3).fill(batchCount));
  }
});

test("a loop that is left, or throws, gives back what is not done; the next one goes on with the rest (Units.L3)", async () => {
  await using cluster = await EmbeddedCluster.start({ workers: 2 });
  const [one, two] = bothOf(cluster);
  const units = one.units("train", { ...FREE, batchCount: 20 });
  const did: number[] = [];
  for await (const unit of units) {
    if (did.length === 3) break; // this one is not done
    did.push(unit.index);
    unit.done();
  }
  await assert.rejects(async () => {
    for await (const unit of units) throw new Error(`no unit ${unit.index}`);
  }, /no unit/);
  assert.equal(units.isOver, false);
  for (const session of [two, one])
    for await (const unit of session.units("train", { ...FREE, batchCount: 20 })) {
      did.push(unit.index);
      unit.done();
      unit.done(); // once is enough
      if (session === two && did.length === 10) break;
    }
  assert.deepEqual(
    did.sort((a, b) => a - b),
    Array.from({ length: 20 }, (_, i) => i),
  );
});

test("a wait for a unit ends with its timeout, which names who has not asked, or with its signal; and the epoch may be taken up again", async () => {
  await using cluster = await EmbeddedCluster.start({ workers: 2 });
  const [one, two] = bothOf(cluster);
  const options = { ...FREE, assignment: "even", partCount: 2, batchCount: 2 } as const;
  const did: number[] = [];
  const run = async (session: Session, wait: object): Promise<void> => {
    for await (const unit of session.units("train", { ...options, ...wait })) {
      did.push(unit.index);
      unit.done();
    }
  };
  await assert.rejects(
    run(one, { timeoutMs: 500 }),
    (error) => isWeighbridgeError(error, "DEADLINE") && /waited 500 ms for worker 1 to ask for units of epoch 0/.test(error.message),
  );
  const stop = new AbortController();
  const aborted = assert.rejects(run(one, { signal: stop.signal }), (error) => isWeighbridgeError(error, "ABORTED"));
  await sleep(20);
  stop.abort();
  await aborted;
  await Promise.all([run(one, {}), run(two, {})]);
  assert.deepEqual(
    did.sort((a, b) => a - b),
    [0, 1, 2, 3],
  );
});

test("units that were closed give none; a worker that retires gets none any more (Units.L4)", async () => {
  await using cluster = await EmbeddedCluster.start({ workers: 2 });
  const [one, two] = bothOf(cluster);
  const closed = one.units("train", { ...FREE, batchCount: 5 });
  await closed.close();
  await assert.rejects(closed[Symbol.asyncIterator]().next(), (error) => isWeighbridgeError(error, "CLOSED"));
  const units = two.units("train", { ...FREE, batchCount: 100 });
  let unitCount = 0;
  for await (const unit of units) {
    unit.done();
    if (++unitCount === 2) units.retire();
  }
  assert.deepEqual([unitCount, units.isOver], [2, false]);
});

test("units that are closed while their first one is asked for give none: the loop throws CLOSED, and another loop may begin", async () => {
  await using cluster = await EmbeddedCluster.start();
  const { session } = cluster;
  const units = session.units("train", { ...FREE, batchCount: 2 });
  const first = units[Symbol.asyncIterator]().next();
  await units.close();
  await assert.rejects(first, (error) => isWeighbridgeError(error, "CLOSED"));
  await assert.rejects(units.close({ deadlineMs: 5 } as never), (error) => isWeighbridgeError(error, "BAD_ARGUMENT"));
  const did: number[] = [];
  for await (const unit of session.units("train", { ...FREE, batchCount: 2 })) {
    did.push(unit.index);
    unit.done();
  }
  assert.deepEqual([did.length, new Set(did)], [2, new Set([0, 1])]);
});

test("close() of units waits for a scheduler that is away no longer than its own timeoutMs", async () => {
  const cluster = new SimCluster({ seed: 1, serverCount: 1, workerCount: 1, settle: () => setImmediate() });
  await cluster.start();
  const session = await cluster.run(Session.open(cluster.worker(0).node));
  const units = session.units("train", { epoch: 0, batchCount: 9, partCount: 1, assignment: "free" });
  await cluster.run(units[Symbol.asyncIterator]().next());
  cluster.network.partition("worker-0", "scheduler");
  const fromMs = cluster.clock.nowMs();
  await cluster.run(units.close({ timeoutMs: 300 }));
  assert.equal(cluster.clock.nowMs() - fromMs, 300);
  cluster.network.heal();
  await cluster.finalize();
});
