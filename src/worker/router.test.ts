// router — Goal: whatever the placement does, a request goes to the owners of what it is about, counts once, keeps its
// order, and ends.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { Random } from "../base/random.ts";
import { sspSync } from "../contracts/beside-parameters.ts";
import { clockAdvance } from "../contracts/clocks.ts";
import { rowsPull, rowsPush, rowsPushPull } from "../contracts/rows.ts";
import { Arena } from "../kernel/arena.ts";
import { elementTypeOf } from "../kernel/elements.ts";
import { PART_COUNT } from "../keys/placement.ts";
import { RouterStage } from "../testing/router-stage.ts";
import { SimClock } from "../testing/sim-clock.ts";
import { FunctionId } from "../wire/function-id.ts";
import type { Embedding } from "./embedding.ts";
import type { KeyList } from "./key-lists.ts";
import type { KvFunctionId } from "./kv-arrays.ts";
import { KvRequest } from "./kv-request.ts";
import { ParameterHandle } from "./parameter-handle.ts";
import type { AnyRequest, Recut } from "./router/function-request.ts";
import { kvRoutesOf } from "./router/kv-routes.ts";
import { RowPlanner } from "./router/row-plan.ts";
import { BlockRoute } from "./router/server-directory.ts";
import { requestOf } from "./router.ts";
import type { Tensor } from "./tensor.ts";

/** Of all workers here. */
const ARENA = new Arena({ shared: false, bytesMax: 2 ** 26 });
const KEY_LAST = 2n ** 64n - 1n;
const NO_PUSHES = { clocks: new Uint32Array(0), parameters: new Uint32Array(0), numbers: new Uint32Array(0) };
const { KV_PUSH, KV_PULL, KV_PUSH_PULL } = FunctionId;

/** Every part goes from its owner to the server behind it. */
function turned(serverCount: number): readonly number[] {
  return Array.from({ length: PART_COUNT }, (_, part) => [part, part % serverCount]).flat();
}

class Worker {
  readonly stage: RouterStage;
  readonly table: Embedding;
  readonly tensor: Tensor;
  readonly #incarnations: number[];

  constructor(stage: RouterStage) {
    this.stage = stage;
    this.table = stage.table("rows", 1, new RowPlanner(ARENA, stage.router, 7));
    this.tensor = stage.tensor("tensor", 2, [4 * 65_536, 2], ARENA);
    this.#incarnations = stage.router.servers.map((rank) => stage.router.incarnationOf(rank));
  }

  async push(keys: KeyList, value: number, clock = 0): Promise<void> {
    this.stage.workerClock.value = clock;
    await this.table.push(keys, new Float32Array(keys.length * 2).fill(value));
  }

  async pull(keys: KeyList): Promise<Float32Array> {
    const into = new Float32Array(keys.length * 2);
    this.stage.workerClock.value = 0;
    await this.table.pull(keys, { into });
    return into;
  }

  async clock(clock: number): Promise<void> {
    await this.stage.functions.callAll(clockAdvance, { clock, leaves: false, ...NO_PUSHES }, { priority: -1 });
  }

  async kv(functionId: KvFunctionId, keys: BigUint64Array, sent?: Float32Array, received?: Float32Array, isOwn = false): Promise<void> {
    const values = (sent ?? received) as Float32Array;
    const [width, elementBytes] = [values.length / keys.length, 4];
    const routes = kvRoutesOf(this.stage.router);
    await new Promise<void>((resolve, reject) => {
      const owner = {
        ...{ app: 0, customer: 0, window: routes.window, incarnations: this.#incarnations, router: routes },
        ended: (_: KvRequest, error?: Error): void => (error === undefined ? resolve() : reject(error)),
      };
      const slicer = (all: BigUint64Array): number[] => [0, ...this.stage.router.servers.map(() => all.length)];
      const arrays = { keys, sent, received, lens: undefined, dtype: elementTypeOf(values), width, elementBytes };
      routes.submit(new KvRequest(owner, functionId, arrays, {}, isOwn ? { slicer } : undefined));
    });
  }
}

function started(serverCount = 3, policy: "ring" | "range" = "ring"): { readonly stage: RouterStage; readonly worker: Worker } {
  const stage = new RouterStage(serverCount, new SimClock({ settle: setImmediate }), policy);
  return { stage, worker: new Worker(stage) };
}

const LIST = BigUint64Array.from({ length: 300 }, (_, i) => BigInt(i % 200) * 977n);

test("all servers own keys, blocks go by tensor and number, and a server that is named is itself", () => {
  const { router } = new RouterStage(3);
  const ownersOf = (route: (i: number) => Parameters<typeof router.serverOf>[0]): Set<number> =>
    new Set(Array.from({ length: 200 }, (_, i) => router.serverOf(route(i))));
  assert.deepEqual(
    [...ownersOf((i) => ({ key: BigInt(i) }))].sort((a, b) => a - b),
    [0, 1, 2],
  );
  assert.deepEqual(
    [...ownersOf((block) => new BlockRoute(3, block))].sort((a, b) => a - b),
    [0, 1, 2],
  );
  assert.ok([0, 1, 2].includes(router.serverOf({ key: KEY_LAST })));
  assert.equal(router.serverOf({ server: 2 }), 2);
});

test("rows with duplicates that servers refuse are cut again by the new placement, count once, and come back to where they were named (Router.R3)", async () => {
  const { stage, worker } = started();
  stage.change([0, 1, 2], turned(3));
  const pushed = worker.push(LIST, 1);
  const pulled = worker.pull(LIST);
  await stage.drain();
  await pushed;
  const rows = await pulled;
  for (const [i, key] of LIST.entries()) assert.equal(rows[2 * i], LIST.filter((other) => other === key).length, `key ${key}`);
  assert.ok(stage.refusedCount > 0);
});

test("a plan gives all memory back once the calls that took its place have ended (RowPlan.R2)", async () => {
  const stage = new RouterStage(3);
  const planner = new RowPlanner(ARENA, stage.router, 7);
  const table = stage.table("rows", 1, planner);
  const idleBytes = planner.arena.usedBytes;
  stage.change([0, 1, 2], turned(3));
  const pushed = table.push(LIST, new Float32Array(600));
  const both = table.pushPull({ keys: LIST, gradients: new Float32Array(600) }, LIST, { into: new Float32Array(600) });
  await stage.drain();
  await Promise.all([pushed, both]);
  assert.equal(planner.arena.usedBytes, idleBytes);
});

test("a push and pull of rows that is cut again reads what it has pushed (Router.R3)", async () => {
  const { stage, worker } = started();
  const into = new Float32Array(600);
  stage.change([0, 1, 2], turned(3));
  const done = worker.table.pushPull({ keys: LIST.subarray(0, 200), gradients: new Float32Array(400).fill(5) }, LIST, { into });
  await stage.drain();
  await done;
  assert.ok(into.every((value) => value === 5));
});

test("blocks of a tensor go to their new owners as they are, and their values land in the caller's array (Router.R3)", async () => {
  const { stage, worker } = started();
  const size = 4 * 65_536 * 2;
  const [gradient, into] = [new Float32Array(size).fill(2), new Float32Array(size)];
  stage.change([0, 1, 2], turned(3));
  const pushed = worker.tensor.push(gradient);
  const both = worker.tensor.pushPull(gradient, "all", { into });
  await stage.drain();
  await Promise.all([pushed, both]);
  assert.ok(into.every((value) => value === 4));
});

test("spans of kv requests are cut at the new ranges, also long values in pieces, and a pushPull lands in the caller's array (KvRecut.K1)", async () => {
  const { stage, worker } = started();
  const keys = BigUint64Array.from({ length: 4 }, (_, i) => (KEY_LAST / 4n) * BigInt(i) + 3n);
  for (const width of [1, 5000, 300_000]) {
    const [sent, outs] = [new Float32Array(4 * width).map((_, i) => i % 1000), new Float32Array(4 * width)];
    stage.values.clear();
    stage.change(stage.router.servers.length === 3 ? [0, 2] : [0, 1, 2]);
    const before = stage.refusedCount;
    const pushed = worker.kv(KV_PUSH, keys, sent);
    const both = worker.kv(KV_PUSH_PULL, keys, sent, outs);
    await stage.drain();
    await Promise.all([pushed, both]);
    assert.deepEqual(
      outs,
      sent.map((value) => 2 * value),
      `width ${width}`,
    );
    assert.ok(stage.refusedCount > before);
  }
});

test("a placement that comes before the roster of its servers holds requests until that has come: none fails, each counts once, in order (Router.R8)", async () => {
  const stage = new RouterStage(3, new SimClock({ settle: setImmediate }), "ring", 2);
  const worker = new Worker(stage);
  stage.change([0, 1, 2]);
  const pushed = worker.push(LIST, 1); // refused with a placement in which server 2 is new
  await stage.drain();
  assert.ok(stage.refusedCount > 0);
  const later = [worker.push(LIST, 2), worker.clock(1)];
  const pulled = worker.pull(LIST);
  await stage.clock.advance(1_000);
  assert.equal(stage.queuedCount, 0, "nothing leaves before the roster has come");
  stage.name(3);
  await stage.drain();
  await Promise.all([pushed, ...later]);
  const rows = await pulled;
  for (const [i, key] of LIST.entries()) assert.equal(rows[2 * i], 3 * LIST.filter((other) => other === key).length, `key ${key}`);
  assert.ok(stage.applied.some(({ server, what }) => server === 2 && what.startsWith("rows")));
});

test("a roster that does not come fails calls to the unknown server after the start timeout, and no others (Router.R8)", async () => {
  const stage = new RouterStage(3, new SimClock({ settle: setImmediate }), "ring", 2);
  const worker = new Worker(stage);
  const ownerOf = (key: bigint): number => stage.router.serverOf({ key });
  stage.change([0, 1, 2]);
  stage.publish();
  const [known, unknown] = [LIST.find((key) => ownerOf(key) < 2), LIST.find((key) => ownerOf(key) === 2)];
  const pushes = [known, unknown].map((key) =>
    worker.push(BigUint64Array.of(key as bigint), 1).then(
      () => "applied",
      (error: WeighbridgeError) => error.code,
    ),
  );
  await stage.clock.advance(59_000);
  assert.equal(stage.queuedCount, 0);
  await stage.clock.advance(2_000);
  await stage.drain();
  assert.deepEqual(await Promise.all(pushes), ["applied", "NODE_DEAD"]);
});

test("a placement without the unknown server, or with another one, ends or renews the wait for a roster (Router.R8)", async () => {
  const stage = new RouterStage(4, new SimClock({ settle: setImmediate }), "ring", 2);
  const worker = new Worker(stage);
  stage.change([0, 1, 2]);
  stage.publish();
  const pushed = worker.push(LIST, 1);
  await stage.clock.advance(1_000);
  stage.change([0, 1]);
  stage.publish();
  await stage.drain();
  await pushed;
  stage.change([0, 1, 2, 3]);
  const again = worker.push(LIST, 1);
  await stage.drain();
  stage.name(3);
  await stage.drain();
  assert.ok(stage.router.isHeld, "server 3 is not known yet");
  stage.name(4);
  await stage.drain();
  await again;
  assert.equal(stage.values.get(`row ${LIST[0]}`)?.[0], 4, "the first key is named twice");
});

test("what the application cut itself has no epoch and is never cut again (Router.R5)", async () => {
  const { stage, worker } = started();
  stage.change([0, 1, 2], turned(3));
  const pushed = worker.kv(KV_PUSH, BigUint64Array.of(1n, KEY_LAST), Float32Array.of(1, 2), undefined, true);
  assert.deepEqual(
    stage.queueOf(0).map(({ epoch }) => epoch),
    [0],
  );
  await stage.drain();
  await pushed;
  assert.equal(stage.refusedCount, 0);
});

test("requests that wait for room are cut by the placement that is known when they leave (Router.R4)", async () => {
  const { stage, worker } = started();
  stage.queuedMax = 2;
  const pushes = Array.from({ length: 8 }, () => worker.push(LIST, 1));
  const read = worker.pull(LIST.subarray(0, 1));
  await stage.clock.run();
  stage.change([0, 1, 2], turned(3));
  stage.publish();
  await stage.drain();
  await Promise.all(pushes);
  assert.equal((await read)[0], 16, "key 0 is named twice in the list");
});

test("a read that is parked at a server holds nobody up while the placement changes, and is cut again when the server refuses it (Router.R4)", async () => {
  const { stage, worker } = started(2);
  const read = worker.pull(LIST);
  const letGo = [stage.park(0), stage.park(1)];
  const before = worker.push(LIST, 3);
  stage.change([0, 1], turned(2));
  const behind = worker.push(LIST.subarray(0, 1), 1);
  await stage.drain();
  await Promise.all([before, behind]);
  for (const go of letGo) await go();
  await stage.drain();
  assert.equal((await read)[0], 7, "key 0 is named twice in the list");
});

test("a clock message that was refused comes behind the updates that were refused before it (Router.R4)", async () => {
  const { stage, worker } = started();
  const ends = [worker.push(LIST, 1, 5), worker.clock(6)];
  stage.change([0, 1, 2], turned(3));
  await stage.drain();
  await Promise.all(ends);
  const clocks = stage.applied.map(({ clock }) => clock);
  assert.deepEqual(
    clocks,
    [...clocks].sort((a, b) => a - b),
    "no server heard of clock 6 before the updates of clock 5",
  );
  assert.ok(clocks.includes(5) && clocks.includes(6));
});

/** Whether it has settled by now. */
async function isDone(promise: Promise<unknown>): Promise<boolean> {
  return await Promise.race([promise.then(() => true), setImmediate().then(() => false)]);
}

test("a worker that is prepared sends no clock message until it has the placement; what it called before goes on, what it calls afterwards waits (Router.R7)", async () => {
  const { stage, worker } = started();
  await stage.router.clockMessages.prepare({ epoch: 2, holdMs: 1000 });
  const before = worker.push(LIST, 1, 5);
  const sent = worker.clock(6);
  const behind = worker.push(LIST, 1, 6);
  await stage.drain();
  assert.ok(await isDone(before));
  assert.deepEqual([await isDone(sent), await isDone(behind)], [false, false]);
  assert.ok(stage.applied.every(({ clock }) => clock === 5));
  stage.change([0, 1, 2], turned(3));
  stage.publish();
  await stage.drain();
  await Promise.all([sent, behind]);
  assert.equal(stage.refusedCount, 0);
  assert.equal(stage.applied.at(-1)?.clock, 6);
});

test("PREPARE is answered when every clock message that has left is answered, also one that was refused and is sent again (PlacementHold.A1)", async () => {
  const { stage, worker } = started();
  const sent = worker.clock(6);
  const prepared = stage.router.clockMessages.prepare({ epoch: 3, holdMs: 1000 });
  stage.change([0, 1, 2], turned(3));
  await stage.step(0);
  await stage.step(1);
  assert.equal(await isDone(prepared), false);
  await stage.drain();
  assert.ok(stage.refusedCount > 0);
  await Promise.all([sent, prepared]);
  const next = worker.clock(7);
  await stage.drain();
  assert.equal(await isDone(next), false, "the placement of epoch 3 is waited for");
  stage.change([0, 1, 2]);
  stage.publish();
  await stage.drain();
  await next;
});

test("PREPARE is refused, and nothing held, while a server has not heard of a clock; once it was told again it is answered (Router.R7)", async () => {
  const { stage, worker } = started();
  const sent = assert.rejects(worker.clock(6), (error) => isWeighbridgeError(error, "LINK_LOST"));
  const isRefused = (error: unknown): boolean =>
    isWeighbridgeError(error, "QUEUE_FULL") && /server 1 of the end of a clock/.test(error.message);
  const waiting = assert.rejects(stage.router.clockMessages.prepare({ epoch: 2, holdMs: 1000 }), isRefused);
  await stage.lose(1);
  await stage.drain();
  await Promise.all([sent, waiting]);
  await assert.rejects(stage.router.clockMessages.prepare({ epoch: 2, holdMs: 1000 }), isRefused);
  const again = worker.clock(6);
  await stage.drain();
  await again;
  await stage.router.clockMessages.prepare({ epoch: 2, holdMs: 1000 });
});

test("PREPARE waits until the worker has joined the clock set, and told its clock there; nothing is held when it hears meanwhile that the placement does not come (Router.R7)", async () => {
  const { stage, worker } = started();
  const joined = stage.functions.joining();
  const prepared = stage.router.clockMessages.prepare({ epoch: 2, holdMs: 1000 });
  assert.equal(await isDone(prepared), false);
  joined();
  await prepared;
  await stage.router.clockMessages.prepare({ epoch: 2, holdMs: 0 });
  const joinedAgain = stage.functions.joining();
  const abandoned = stage.router.clockMessages.prepare({ epoch: 2, holdMs: 1000 });
  await stage.router.clockMessages.prepare({ epoch: 2, holdMs: 0 });
  joinedAgain();
  await abandoned;
  const atOnce = worker.clock(6);
  await stage.drain();
  await atOnce;
});

test("messages about clocks wait no longer than they were told to, nor for a change that is abandoned or was adopted before (PlacementHold.A2)", async () => {
  const { stage, worker } = started();
  await stage.router.clockMessages.prepare({ epoch: 2, holdMs: 1000 });
  const late = worker.clock(1);
  await stage.clock.advance(999);
  assert.equal(stage.queuedCount, 0);
  await stage.clock.advance(1);
  assert.equal(stage.queuedCount, 3);
  await stage.drain();
  await late;
  await stage.router.clockMessages.prepare({ epoch: 2, holdMs: 1000 });
  const abandoned = worker.clock(2);
  await stage.drain();
  assert.equal(await isDone(abandoned), false);
  await stage.router.clockMessages.prepare({ epoch: 2, holdMs: 0 });
  await stage.drain();
  await abandoned;
  await stage.router.clockMessages.prepare({ epoch: 1, holdMs: 1000 });
  const atOnce = worker.clock(3);
  await stage.drain();
  await atOnce;
});

test("a call that is cut again while a restarted server is asked about its parameter ends once, and so does each of its parts", async () => {
  const stage = new RouterStage(3, new SimClock({ settle: setImmediate }));
  const subject = new ParameterHandle({ name: "rows", maker: "embedding", parameter: 1 }, stage.pushes);
  subject.found(0, stage.router.incarnationOf(0));
  stage.isRestored = (rank) => rank === 1;
  const heard: string[] = [];
  const keyOf = (server: number): bigint => LIST.find((key) => stage.router.serverOf({ key }) === server)!;
  const push = (name: string, key: bigint, cutAgain: () => Recut): AnyRequest => {
    const keys = BigUint64Array.of(key);
    const { to } = stage.router.sharesOf(keys)[0]!;
    const request = { parameter: 1, clock: 0, pushNumber: 1, scale: 1, keys, gradients: new Float32Array(2) };
    return requestOf(rowsPush, { to, request, cutAgain, failed: ({ code }) => void heard.push(`${name} ${code}`) });
  };
  const cannot = (): Recut => {
    throw new WeighbridgeError("ARENA_FULL", "no room to cut it again");
  };
  const whole = push("whole", keyOf(0), () => {
    const again = (): Recut => ({ requests: [push("second anew", keyOf(2), cannot)], release: () => void heard.push("second released") });
    return {
      requests: [push("first", keyOf(1), cannot), push("second", keyOf(2), again)],
      release: () => void heard.push("whole released"),
    };
  });
  const called = stage.functions.callMixed([whole], "a push", { subject });
  const outcome = called.then(
    () => "",
    (error: WeighbridgeError) => error.code,
  );
  await stage.clock.run();
  stage.change([1, 2]);
  await stage.step(0); // refused, cut in two; server 1 is asked about the parameter
  stage.change([1, 2]);
  stage.publish();
  await stage.step(1); // it has it restored; the first part cannot be cut again, and for the second server 2 is asked
  await stage.step(2); // it has lost it
  assert.equal(await outcome, "ARENA_FULL");
  assert.deepEqual(heard, [
    "first ARENA_FULL",
    "second anew UNKNOWN_PARAMETER",
    "second released",
    "second UNKNOWN_PARAMETER",
    "whole released",
    "whole ARENA_FULL",
  ]);
  assert.equal(stage.queuedCount, 0);
});

test("a caller that waits no longer, by deadline or abort, while its request is cut again: the request goes on, once", async () => {
  const { stage, worker } = started();
  const gradients = new Float32Array(600).fill(1);
  const abort = new AbortController();
  const late = worker.table.push(LIST, gradients, { timeoutMs: 5 });
  const aborted = worker.table.push(LIST, gradients, { signal: abort.signal });
  const told = [
    assert.rejects(late, (error) => isWeighbridgeError(error, "DEADLINE")),
    assert.rejects(aborted, (error) => isWeighbridgeError(error, "ABORTED")),
  ];
  stage.change([0, 1, 2], turned(3));
  await stage.step(0);
  await stage.clock.advance(5);
  abort.abort();
  await stage.drain();
  await Promise.all(told);
  assert.equal(stage.values.get("row 0")?.[0], 4, "key 0 is named twice in each of two pushes");
});

test("a refusal without a newer placement ends the request with WRONG_EPOCH: it is not sent round in circles (Router.R3)", async () => {
  const { stage, worker } = started(1);
  const pushed = worker.push(LIST, 1);
  const refusal = assert.rejects(pushed, (error) => isWeighbridgeError(error, "WRONG_EPOCH"));
  const [call] = stage.queueOf(0);
  call?.failed(new WeighbridgeError("WRONG_EPOCH", "and nothing newer"));
  await Promise.all([refusal, stage.clock.run()]);
});

/** What a worker does next, and what it must see. */
async function act(worker: Worker, random: Random, sums: Map<bigint, number>, kvSums: Map<bigint, number>): Promise<void> {
  const keys = [...new Set(Array.from({ length: 1 + random.below(6) }, () => BigInt(random.below(12))))];
  const spread = BigUint64Array.from(keys, (key) => key * (KEY_LAST / 12n)).sort();
  const noteAll = (list: Iterable<bigint>, into: Map<bigint, number>): void => {
    for (const key of list) into.set(key, (into.get(key) ?? 0) + 1);
  };
  switch (random.below(4)) {
    case 0: {
      noteAll(keys, sums);
      return await worker.push(BigUint64Array.from(keys), 1);
    }
    case 1: {
      const expected = keys.map((key) => sums.get(key) ?? 0);
      const rows = await worker.pull(BigUint64Array.from(keys));
      for (const [i, least] of expected.entries())
        assert.ok((rows[2 * i] as number) >= least, `key ${keys[i]} misses an update of its own`);
      return;
    }
    case 2: {
      noteAll(spread, kvSums);
      return await worker.kv(KV_PUSH, spread, new Float32Array(spread.length).fill(1));
    }
    default: {
      const expected = Array.from(spread, (key) => kvSums.get(key) ?? 0);
      const outs = new Float32Array(spread.length);
      await worker.kv(KV_PULL, spread, undefined, outs);
      for (const [i, least] of expected.entries())
        assert.ok((outs[i] as number) >= least, `kv key ${spread[i]} misses an update of its own`);
    }
  }
}

test("for 60 seeds with a placement that changes at any moment: acknowledged = applied, and every read sees the worker's own updates (Router.R3, Router.R4)", async () => {
  for (let seed = 1; seed <= 60; seed++) {
    const random = new Random(seed);
    const { stage, worker } = started(3, seed % 10 === 0 ? "ring" : "range"); // a ring takes long to make
    const [sums, kvSums] = [new Map<bigint, number>(), new Map<bigint, number>()];
    const ends: Promise<void>[] = [];
    for (let turn = 0; turn < 60; turn++) {
      if (random.chance(0.4)) ends.push(act(worker, random, sums, kvSums));
      if (random.chance(0.08)) {
        const servers = [0, 1, 2].filter((rank) => rank === random.below(3) || random.chance(0.7));
        stage.change(servers.length === 0 ? [1] : servers);
        if (random.chance(0.5)) stage.publish();
      }
      await stage.step(random.below(3));
    }
    await stage.drain();
    await Promise.all(ends);
    for (const [key, sum] of sums) assert.equal(stage.values.get(`row ${key}`)?.[0], sum, `seed ${seed}: key ${key}`);
    for (const [key, sum] of kvSums) assert.equal(stage.values.get(key)?.[0], sum, `seed ${seed}: kv key ${key}`);
    assert.equal(stage.router.isHeld, false, `seed ${seed}`);
  }
});

test("a push and pull whose answer was lost with its part counts once, and reads the rows or the block from their owners of now (Embedding.B5, Tensor.T3)", async () => {
  const { stage, worker } = started();
  const into = new Float32Array(2 * LIST.length);
  const values = new Float32Array(worker.tensor.size);
  const gradients = new Float32Array(2 * LIST.length).fill(1);
  const calls = [
    worker.table.pushPull({ keys: LIST, gradients }, LIST, { into }),
    worker.tensor.pushPull(values.slice().fill(1), "all", { into: values }),
  ];
  await stage.clock.advance(0);
  const sent = stage.queuedCount;
  for (const [rank, count] of stage.router.servers.map((server) => [server, stage.queueOf(server).length] as const))
    for (let i = 0; i < count; i++) await stage.loseAnswer(rank);
  stage.change([0, 1, 2], turned(3));
  await stage.drain();
  await Promise.all(calls);
  assert.equal(stage.applied.length, sent, "nothing was applied again");
  assert.ok(stage.refusedCount > 0, "the reads were cut again");
  assert.deepEqual(
    [...into],
    [...LIST].flatMap((key) => [...(stage.values.get(`row ${key}`) ?? [])]),
  );
  assert.ok(into.every((value) => value > 0) && values.every((value) => value === 1));
});

test("a push and pull whose answer is lost, and cannot be asked for, fails once, and its call waits for the others (Embedding.B5)", async () => {
  const stage = new RouterStage(2, new SimClock({ settle: setImmediate }));
  const subject = new ParameterHandle({ name: "rows", maker: "embedding", parameter: 1 }, stage.pushes);
  subject.found(0, stage.router.incarnationOf(0));
  stage.isRestored = () => false;
  const heard: string[] = [];
  const failed =
    (name: string) =>
    ({ code }: WeighbridgeError): void =>
      void heard.push(`${name} ${code}`);
  const keys = LIST.filter((key) => stage.router.serverOf({ key }) === 0).slice(0, 1);
  const of = { parameter: 1, clock: 0, pushNumber: 1, scale: 1, gradients: new Float32Array(2) };
  const read = requestOf(rowsPull, { to: { server: 1 }, request: { parameter: 1, clock: 0, keys }, failed: failed("read") });
  const answerLost = (): Recut => ({ requests: [read], release: () => void heard.push("released") });
  const both = { ...of, pushKeys: keys, pullKeys: keys };
  const requests = [
    requestOf(rowsPushPull, { to: { server: 0 }, request: both, answerLost, failed: failed("both") }),
    requestOf(rowsPush, { to: { server: 0 }, request: { ...of, keys }, failed: failed("push") }),
  ];
  const outcome = stage.router.call(requests, subject).then(
    () => [],
    ({ code, outcome, parts }: WeighbridgeError) => [code, outcome, parts],
  );
  await stage.clock.run();
  await stage.loseAnswer(0);
  await stage.step(1); // it has lost the parameter
  assert.deepEqual(heard, ["read UNKNOWN_PARAMETER", "released", "both UNKNOWN_PARAMETER"]);
  assert.equal(await isDone(outcome), false, "the push is still open");
  await stage.step(0);
  assert.deepEqual(await outcome, ["UNKNOWN_PARAMETER", "applied", [{ server: 0, outcome: "applied" }]], "both pushes count");
  assert.equal(stage.router.openUpdates, 0);
  assert.equal(heard.length, 3);
});

test("an update that names a server, and waits there for other workers, holds nothing back while the placement changes (Router.R4, Router.R5)", async () => {
  const { stage, worker } = started();
  const waiting = stage.functions.call(sspSync, { server: 0 }, { group: 1n, size: 0, tolerance: 0, version: 1 });
  await stage.clock.advance(0);
  const letGo = stage.park(0);
  stage.change([0, 1, 2], turned(3));
  stage.publish();
  const pushed = worker.push(LIST, 1);
  await stage.drain();
  assert.ok(await isDone(pushed));
  await letGo();
  await waiting;
});
