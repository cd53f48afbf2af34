// Parts that move while workers push, pull and end clocks: each update counts once, and the lowest clock never falls
// (Availability.I5, Availability.I6). The quick share, and what seeds have found; npm run soak takes many more seeds.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { isWeighbridgeError, WeighbridgeError } from "../../src/base/errors.ts";
import { KVServer } from "../../src/faces/kv/kv-server.ts";
import { KVWorker } from "../../src/faces/kv/kv-worker.ts";
import { partOf } from "../../src/keys/part.ts";
import { placementOf } from "../../src/keys/placement-of.ts";
import { changePlacement, nodesOf } from "../../src/testing/change-placement.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { idOf, SCHEDULER_ID } from "../../src/wire/node-id.ts";
import type { PlacementView } from "../../src/wire/roster.ts";
import type { Embedding } from "../../src/worker/embedding.ts";
import { SETTLING } from "../support/settling.ts";
import { optionsOf, runAcknowledged, runBits, runPace, SERVERS, undisturbedReads, WORKERS } from "./changing-placement.ts";
import { forSeeds } from "./seeds.ts";

const SEEDS = 2;

test(`for ${SEEDS} seeds with parts that move between servers at any moment: acknowledged = applied, for rows, encoded rows, cached rows, tensors and kv`, async () => {
  await forSeeds({ from: 1, count: SEEDS }, async (seed) => {
    assert.ok((await runAcknowledged(seed)) > 0, "the placement has changed while requests were under way");
  });
});

test(`for ${SEEDS} seeds with parts that move between servers at any moment: no read under SSP misses a push that its bound promises`, async () => {
  let changeCount = 0;
  await forSeeds({ from: 1, count: SEEDS }, async (seed) => {
    changeCount += await runPace(seed);
  });
  assert.ok(changeCount > SEEDS, `${changeCount} changes`);
});

test(`for ${SEEDS} seeds with parts that move between servers at any moment: BSP reads the bits of a run in which nothing moves, for every optimizer`, async () => {
  const expected = await undisturbedReads();
  let changeCount = 0;
  await forSeeds({ from: 1, count: SEEDS }, async (seed) => {
    changeCount += await runBits(seed, expected);
  });
  assert.ok(changeCount > SEEDS, `${changeCount} changes`);
});

test(`for ${SEEDS} seeds with servers that leave the placement and come back at any moment: acknowledged = applied, no read is too stale, and BSP reads the same bits`, async () => {
  const expected = await undisturbedReads();
  let changeCount = 0;
  await forSeeds({ from: 1, count: SEEDS }, async (seed) => {
    await runAcknowledged(seed, "servers");
    changeCount += await runPace(seed, "servers");
    changeCount += await runBits(seed, expected, "servers");
  });
  assert.ok(changeCount > SEEDS, `${changeCount} changes`);
});

test("a job that holds raw keys of kv refuses a change of its servers as a whole, naming the application", async () => {
  const cluster = new SimCluster({ seed: 1, serverCount: SERVERS, workerCount: WORKERS, settle: SETTLING, optionsOf });
  await cluster.start();
  for (let rank = 0; rank < SERVERS; rank++) new KVServer(cluster.server(rank), 3);
  const kv = new KVWorker(cluster.worker(0), 3);
  await cluster.run(kv.wait(kv.push(BigUint64Array.of(1n), Float32Array.of(1))));
  const publish = cluster.run(changePlacement(nodesOf(cluster), { servers: [1] }));
  await assert.rejects(publish, throwsCode("UNSUPPORTED", /application 3 of the kv face has 1 keys on server 0/));
  assert.equal(cluster.server(0).server?.ownership.epoch, 1, "nothing has moved");
});

/**
 * Rows of one push on all servers, and a change that gives all parts of server 0 to the others, of whom nobody hears
 * from it.
 */
async function stuckChange(): Promise<{ readonly cluster: SimCluster; readonly rows: Embedding; readonly change: Promise<void> }> {
  const cluster = new SimCluster({ seed: 2, serverCount: SERVERS, workerCount: WORKERS, settle: SETTLING, optionsOf });
  await cluster.start();
  const session = await cluster.run(Session.open(cluster.worker(0).node));
  const rows = await cluster.run(session.embedding("rows", { dim: 1, optimizer: { type: "sum" } }));
  await cluster.run(rows.push(ROW_KEYS, new Float32Array(ROW_KEYS.length).fill(1)));
  for (const other of ["server-1", "server-2"]) cluster.network.partition("server-0", other, { isOneWay: true });
  const change = changePlacement(nodesOf(cluster), { moved: Array.from({ length: 1365 }, (_, part) => [part, 1 + (part % 2)]).flat() });
  change.catch(() => {}); // its test waits for it later
  await cluster.clock.advance(100);
  assert.equal(cluster.server(0).server?.ownership.epoch, 2, "it has heard of the placement");
  return { cluster, rows, change };
}

const ROW_KEYS = Array.from({ length: 50 }, (_, i) => i);

test("a change whose parts cannot come since their new owner has died is taken back, and nothing of live servers is lost (PlacementChanges.C6)", async () => {
  const { cluster, rows, change } = await stuckChange();
  cluster.kill(idOf("server", 1));
  await assert.rejects(cluster.run(change), throwsCode("NODE_DEAD", /server 1/));
  const placement = placementOf(cluster.scheduler.scheduler?.roster.placement as PlacementView);
  assert.equal(placement.epoch, 3);
  const alive = ROW_KEYS.filter((key) => placement.ownerOf(partOf(key, 0)) !== 1);
  cluster.network.heal();
  const values = await cluster.run(rows.pull(alive, { timeoutMs: 60_000 }));
  assert.deepEqual(values, new Float32Array(alive.length).fill(1));
});

test("parts whose server dies before they have left it are as all others of it: calls fail with NODE_DEAD", async () => {
  const { cluster, rows, change } = await stuckChange();
  cluster.kill(idOf("server", 0));
  await assert.rejects(cluster.run(change), throwsCode("NODE_DEAD", /server 0/));
  await assert.rejects(cluster.run(rows.pull(ROW_KEYS, { timeoutMs: 60_000 })), throwsCode("NODE_DEAD"));
});

test("a scheduler that dies once the workers are prepared holds nobody up for ever, and the next one moves parts again", async () => {
  const cluster = new SimCluster({ seed: 1, serverCount: SERVERS, workerCount: WORKERS, settle: SETTLING, optionsOf });
  await cluster.start();
  const sessions = await cluster.run(Promise.all([0, 1].map((rank) => Session.open(cluster.worker(rank).node))));
  const tensors = await cluster.run(
    Promise.all(sessions.map((session) => session.tensor("w", { shape: [4], optimizer: "sum", consistency: "bsp" }))),
  );
  const step = async (): Promise<void> => {
    await Promise.all(tensors.map((tensor) => tensor.push(new Float32Array(4).fill(1))));
    for (const session of sessions) session.clock();
    const [clock] = sessions.map(({ clocks }) => clocks);
    for (const tensor of tensors) assert.deepEqual(await tensor.pull(), new Float32Array(4).fill(WORKERS * (clock ?? 0)));
  };
  await cluster.run(step());
  const dies = (): never => {
    cluster.kill(SCHEDULER_ID);
    throw new WeighbridgeError("CLOSED", "the scheduler died");
  };
  const change = cluster.scheduler.scheduler?.publishPlacement({ policy: "ring" }, dies) ?? Promise.resolve();
  await assert.rejects(cluster.run(change), throwsCode("CLOSED"));
  const beganMs = cluster.clock.nowMs();
  await cluster.run(step());
  const tookMs = cluster.clock.nowMs() - beganMs;
  assert.ok(tookMs > 20_000 && tookMs < 40_000, `the clock ended ${tookMs} ms after the scheduler died`);
  await cluster.run(cluster.startNode(SCHEDULER_ID));
  await cluster.clock.advance(5000);
  await cluster.run(changePlacement(nodesOf(cluster), { policy: "ring" }));
  await cluster.run(step());
  assert.equal(cluster.worker(0).node.worker?.router.epoch, 2);
});

test("a placement that servers have, and a scheduler died before its parts were handed over, is taken back by the next one, which gives its epoch to no other (PlacementChanges.C6)", async () => {
  const cluster = new SimCluster({ seed: 1, serverCount: SERVERS, workerCount: WORKERS, settle: SETTLING, optionsOf });
  await cluster.start();
  changePlacement(nodesOf(cluster), { policy: "ring" }).catch(() => {}); // nobody is there to hear of it
  const isHeard = (): boolean => [0, 1, 2].some((rank) => cluster.server(rank).server?.ownership.epoch === 2);
  while (!isHeard()) await cluster.clock.advance(1);
  cluster.kill(SCHEDULER_ID);
  await cluster.run(cluster.startNode(SCHEDULER_ID));
  await cluster.clock.advance(5000);
  const { placement } = cluster.scheduler.scheduler?.roster ?? {};
  assert.deepEqual([placement?.epoch, placement?.policy], [3, "range"]);
  await cluster.run(changePlacement(nodesOf(cluster), { policy: "ring" }));
  await cluster.clock.advance(100);
  const epochs = [0, 1].map((rank) => cluster.worker(rank).node.worker?.router.epoch);
  assert.deepEqual(epochs, [4, 4]);
});

test("a server that one worker cannot reach holds that worker's other requests back until its link is given up, and not longer; another worker's go on (Router.R4)", async () => {
  const linkTimeoutMs = 3000;
  const cluster = new SimCluster({ seed: 1, serverCount: SERVERS, workerCount: WORKERS, settle: SETTLING, optionsOf, linkTimeoutMs });
  await cluster.start();
  const sessions = await cluster.run(Promise.all([0, 1].map((rank) => Session.open(cluster.worker(rank).node))));
  const tables = await cluster.run(
    Promise.all(sessions.map((session) => session.embedding("rows", { dim: 1, optimizer: { type: "sum" } }))),
  );
  const [cutOff, other] = tables as [Embedding, Embedding];
  const keys = BigUint64Array.from({ length: 30 }, (_, i) => BigInt(i) * 7919n);
  const owners = (key: bigint): readonly boolean[] =>
    Array.from({ length: SERVERS }, (_, rank) => cluster.server(rank).server?.ownership.ownsKey(Number(key), 0) === true);
  const elsewhere = keys.filter((key) => owners(key)[1] !== true);
  cluster.network.partition("worker-0", "server-1", { breakLinks: true });
  const pushed = assert.rejects(cutOff.push(keys, new Float32Array(keys.length).fill(1)), (error) =>
    isWeighbridgeError(error, "LINK_LOST"),
  );
  await cluster.run(changePlacement(nodesOf(cluster), { moved: [0, 0] }));
  await cluster.clock.advance(100);
  assert.equal(cluster.worker(0).node.worker?.router.epoch, 2);
  const beganMs = cluster.clock.nowMs();
  const held = cutOff.pull(elsewhere).then(() => cluster.clock.nowMs() - beganMs);
  await cluster.run(other.pull(keys));
  assert.ok(cluster.clock.nowMs() - beganMs < 100, "another worker's requests go on");
  const heldMs = await cluster.run(held);
  assert.ok(heldMs > 1000 && heldMs < 2 * linkTimeoutMs, `held for ${heldMs} ms`);
  await cluster.run(pushed);
});

test("a first request that an application cut itself is refused, nothing applied, while a change of the servers is prepared, and served after it", async () => {
  const cluster = new SimCluster({ seed: 1, serverCount: SERVERS, workerCount: WORKERS, settle: SETTLING, optionsOf });
  await cluster.start();
  for (let rank = 0; rank < SERVERS; rank++) new KVServer(cluster.server(rank), 0);
  const kv = new KVWorker(cluster.worker(0), 0);
  kv.setSlicer((keys, ranges) => [0, ...ranges.map(() => keys.length)]); // all to the first server
  const push = async (): Promise<void> => await kv.wait(kv.push(BigUint64Array.of(7n), Float32Array.of(1)));
  const hasAppCut = (): readonly (boolean | undefined)[] => [0, 1, 2].map((rank) => cluster.server(rank).server?.ownership.hasAppCut);
  cluster.network.partition("scheduler", "worker-1"); // which is not prepared until it heals
  let isMoved = false;
  const change = cluster.scheduler.scheduler?.publishPlacement({ servers: [0, 1] }, () => {
    isMoved = true;
    assert.deepEqual(hasAppCut(), [false, false, false], "no server has data that cannot follow the change");
  });
  await cluster.clock.advance(1000);
  assert.equal(isMoved, false);
  await assert.rejects(
    cluster.run(push()),
    (error) => isWeighbridgeError(error, "QUEUE_FULL") && error.retryable && /setSlicer/.test(error.message),
  );
  cluster.network.heal();
  await cluster.run(change ?? Promise.resolve());
  await cluster.clock.advance(1000);
  assert.equal(isMoved, true);
  await cluster.run(push());
  const values = new Float32Array(1);
  await cluster.run(kv.wait(kv.pull(BigUint64Array.of(7n), values)));
  assert.deepEqual([values[0], ...hasAppCut()], [1, true, false, false]);
  await assert.rejects(
    cluster.run(cluster.scheduler.scheduler?.publishPlacement({ servers: [0, 1, 2] }, () => {}) ?? Promise.resolve()),
    throwsCode("UNSUPPORTED"),
  );
});

test("a first request that an application cut itself is served when the change of the servers that was prepared is abandoned", async () => {
  const cluster = new SimCluster({ seed: 1, serverCount: SERVERS, workerCount: WORKERS, settle: SETTLING, optionsOf });
  await cluster.start();
  for (let rank = 0; rank < SERVERS; rank++) new KVServer(cluster.server(rank), 0);
  const kv = new KVWorker(cluster.worker(0), 0);
  kv.setSlicer((keys, ranges) => [0, ...ranges.map(() => keys.length)]);
  const fails = (): never => {
    throw new WeighbridgeError("CLOSED", "not now");
  };
  await assert.rejects(
    cluster.run(cluster.scheduler.scheduler?.publishPlacement({ servers: [0, 1] }, fails) ?? Promise.resolve()),
    /not now/,
  );
  await cluster.clock.advance(1000);
  await cluster.run(kv.wait(kv.push(BigUint64Array.of(7n), Float32Array.of(1))));
});

/** Rows of one push, and a move to servers 1 and 2 that has begun. */
async function begunMove(): Promise<{ readonly cluster: SimCluster; readonly rows: Embedding }> {
  const cluster = new SimCluster({ seed: 3, serverCount: SERVERS, workerCount: WORKERS, settle: SETTLING, optionsOf });
  await cluster.start();
  const session = await cluster.run(Session.open(cluster.worker(0).node));
  const rows = await cluster.run(session.embedding("rows", { dim: 1, optimizer: { type: "sum" } }));
  await cluster.run(rows.push(ROW_KEYS, new Float32Array(ROW_KEYS.length).fill(1)));
  let moved = 0;
  const onProgress = (progress: { readonly moved: number }): void => {
    moved = progress.moved;
  };
  cluster.scheduler.scheduler?.moveTo([1, 2], { onProgress }).catch(() => {}); // whoever interrupts it knows
  while (moved === 0) await cluster.clock.advance(1);
  return { cluster, rows };
}

const serversNow = (cluster: SimCluster): string => JSON.stringify(cluster.scheduler.scheduler?.roster.placement);

test("a move that a scheduler had begun is finished by the next one, or goes back, and no row is lost (PlacementMoves.M1)", async () => {
  for (const servers of [
    [1, 2],
    [0, 1, 2],
    [0, 1],
  ]) {
    const { cluster, rows } = await begunMove();
    cluster.kill(SCHEDULER_ID);
    await cluster.run(cluster.startNode(SCHEDULER_ID));
    await cluster.clock.advance(5000);
    assert.match(serversNow(cluster), /"move":/, "it is on its way");
    const seen: number[] = [];
    const moving = cluster.scheduler.scheduler?.moveTo(servers, { onProgress: ({ moved }) => seen.push(moved) });
    await cluster.run(moving ?? Promise.resolve());
    assert.doesNotMatch(serversNow(cluster), /"move":/);
    assert.deepEqual(cluster.scheduler.scheduler?.roster.placement?.servers, servers);
    assert.ok((seen[0] ?? 0) > 0, "it went on from where it was");
    assert.deepEqual(await cluster.run(rows.pull(ROW_KEYS)), new Float32Array(ROW_KEYS.length).fill(1));
  }
});

test("a move that is aborted ends after its step, one at a time, and another one takes it back; a dead server is refused by name", async () => {
  const { cluster, rows } = await begunMove();
  const { scheduler } = cluster.scheduler;
  await assert.rejects(cluster.run(scheduler?.moveTo([0, 1, 2]) ?? Promise.resolve()), throwsCode("QUEUE_FULL", /one move at a time/));
  await cluster.clock.advance(5000);
  const abort = new AbortController();
  const moving = scheduler?.moveTo([0, 1, 2], { signal: abort.signal, onProgress: ({ moved }) => moved > 0 && abort.abort() });
  await assert.rejects(cluster.run(moving ?? Promise.resolve()), /aborted/);
  assert.match(serversNow(cluster), /"move":/);
  await cluster.run(scheduler?.moveTo([1, 2]) ?? Promise.resolve());
  assert.deepEqual(scheduler?.roster.placement?.servers, [1, 2]);
  assert.deepEqual(await cluster.run(rows.pull(ROW_KEYS)), new Float32Array(ROW_KEYS.length).fill(1));
  await assert.rejects(cluster.run(scheduler?.moveTo([1, 2, 3]) ?? Promise.resolve()), throwsCode("NODE_DEAD", /there is no server 3/));
});

test("an application of the kv face that begins while parts are on their way to other servers waits for that (Ownership.O6)", async () => {
  const { cluster } = await begunMove();
  for (let rank = 0; rank < SERVERS; rank++) new KVServer(cluster.server(rank), 3);
  const kv = new KVWorker(cluster.worker(0), 3);
  const push = async (): Promise<void> => await kv.wait(kv.push(BigUint64Array.of(1n), Float32Array.of(1)));
  await assert.rejects(
    cluster.run(push()),
    (error) => isWeighbridgeError(error, "QUEUE_FULL") && error.retryable && /kv face/.test(error.message),
  );
  await cluster.clock.advance(5000);
  assert.deepEqual(cluster.scheduler.scheduler?.roster.placement?.servers, [1, 2]);
  await cluster.run(push());
  const refused = cluster.run(cluster.scheduler.scheduler?.moveTo([1]) ?? Promise.resolve());
  await assert.rejects(refused, throwsCode("UNSUPPORTED", /application 3 of the kv face has 1 keys/));
  assert.deepEqual(cluster.scheduler.scheduler?.roster.placement?.move, undefined, "nothing has begun");
});
