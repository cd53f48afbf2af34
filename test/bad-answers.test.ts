// bad-answers.test — Goal: a server that answers nonsense harms no worker: each call ends with what was asked for or
// with a typed error, the worker's memory is not the server's to fill, and the process lives on.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../src/base/errors.ts";
import { Random } from "../src/base/random.ts";
import { KVWorker } from "../src/faces/kv/kv-worker.ts";
import type { Postoffice } from "../src/faces/kv/postoffice.ts";
import { SimClock } from "../src/testing/sim-clock.ts";
import { startOffice } from "../src/testing/start-office.ts";
import { MemoryHub, MemoryTransport } from "../src/transport/memory-transport.ts";
import { FrameHeader, Kind, setExtent } from "../src/wire/frame.ts";
import { encodeJson } from "../src/wire/json-body.ts";
import { KvFlag } from "../src/wire/kv-message.ts";
import { frameBytes, type HeaderFields, kvPayload, type RawFrame } from "./hostile/raw-frame.ts";
import { RawServer, type Reply } from "./hostile/raw-server.ts";

const KEYS = BigUint64Array.of(1n, 2n);

class Stage {
  readonly clock = new SimClock();
  readonly server: RawServer;
  readonly kv: KVWorker;
  readonly #offices: readonly Postoffice[];

  private constructor(clock: SimClock, server: RawServer, offices: readonly [Postoffice, Postoffice]) {
    this.clock = clock;
    this.server = server;
    this.#offices = offices;
    this.kv = new KVWorker(offices[1], 0);
  }

  static async open(): Promise<Stage> {
    const clock = new SimClock();
    const transport = new MemoryTransport({ clock, hub: new MemoryHub() });
    const schedulerAddress = "memory://scheduler";
    const base = { serverCount: 1, workerCount: 1, schedulerAddress, transport, clock, heartbeatIntervalMs: 0, startBarrier: false };
    const scheduler = startOffice({ ...base, role: "scheduler" });
    const server = new Promise<RawServer>((resolve, reject) => {
      clock.after(1, () => RawServer.start(transport, "memory://server", schedulerAddress).then(resolve, reject));
    });
    const worker = startOffice({ ...base, role: "worker" });
    const offices = await clock.runUntil(Promise.all([scheduler, worker]));
    return new Stage(clock, await clock.runUntil(server), offices);
  }

  get worker(): Postoffice {
    return this.#offices[1] as Postoffice;
  }

  async run<T>(promise: Promise<T>): Promise<T> {
    return await this.clock.runUntil(promise, { untilMs: this.clock.nowMs() + 60_000, maxEvents: 10_000_000 });
  }

  /** The code a call ends with; "" when it ends well. */
  async outcome(promise: Promise<unknown>): Promise<string> {
    return await this.run(
      promise.then(
        () => "",
        (error: unknown) => {
          assert.ok(isWeighbridgeError(error), String(error));
          return error.code;
        },
      ),
    );
  }

  async close(): Promise<void> {
    await this.run(Promise.all(this.#offices.map((office) => office.close())));
  }
}

/** An answer to this request, with these args. */
function answerBytes(
  { header }: RawFrame,
  payload: Uint8Array,
  extent: { total: number; offset: number },
  fields: HeaderFields = {},
): Uint8Array {
  const { functionId, request, priority } = header;
  const args = new FrameHeader();
  setExtent(args, extent.total, extent.offset);
  const { arg0, arg1, arg2, arg3 } = args;
  return frameBytes(Kind.REPLY, { functionId, request, priority, arg0, arg1, arg2, arg3, ...fields }, payload);
}

const WIDE_CASES: readonly { name: string; total: number; offset: number; byteCount: number; code: string }[] = [
  { name: "goes on at the end of 2^52 bytes", total: 2 ** 52, offset: 2 ** 52 - 8, byteCount: 8, code: "BAD_FRAME" },
  { name: "goes on at the end of 2^63 bytes", total: 2 ** 63, offset: 2 ** 62, byteCount: 8, code: "BAD_FRAME" },
  { name: "reaches beyond its own end", total: 8, offset: 4, byteCount: 8, code: "BAD_FRAME" },
  { name: "begins beyond 2^63", total: 8, offset: 2 ** 63, byteCount: 8, code: "BAD_FRAME" },
  { name: "is empty though it has a length", total: 8, offset: 0, byteCount: 0, code: "BAD_FRAME" },
  { name: "is too short for its lengths", total: 4, offset: 0, byteCount: 4, code: "BAD_REQUEST" },
  { name: "has no bytes at all", total: 0, offset: 0, byteCount: 0, code: "BAD_REQUEST" },
];

for (const { name, total, offset, byteCount, code } of WIDE_CASES) {
  test(`a pull of unknown lengths fails with ${code} when its answer ${name}`, async () => {
    const stage = await Stage.open();
    stage.server.serve = (request, reply) => reply(answerBytes(request, new Uint8Array(byteCount), { total, offset }));
    assert.equal(await stage.outcome(stage.kv.pullPairs(KEYS)), code);
    await stage.close();
  });
}

test("the length that an answer declares costs nothing until it comes", async () => {
  const stage = await Stage.open();
  stage.server.serve = (request, reply) => reply(answerBytes(request, new Uint8Array(512 * 1024), { total: 2 ** 50, offset: 0 }));
  const bytesBefore = process.memoryUsage().arrayBuffers;
  const timestamps = Array.from({ length: 5 }, () => stage.kv.pull(KEYS, new Float32Array(2), { lens: new Int32Array(2) }));
  await stage.clock.advance(100);
  for (const timestamp of timestamps) {
    const outcome = await stage.outcome(stage.kv.wait(timestamp, { timeoutMs: 10 }));
    assert.equal(outcome, "DEADLINE", "the rest may still come");
  }
  assert.ok(process.memoryUsage().arrayBuffers - bytesBefore < 2 ** 30);
  await stage.close();
});

test("an answer that is longer than the room made at first is put together as it comes", async () => {
  const stage = await Stage.open();
  const blockFloats = 131_072;
  const blockCount = 150;
  const lens = Int32Array.of(blockCount * blockFloats, 0);
  const total = blockCount * blockFloats * 4 + lens.byteLength;
  stage.server.serve = (request, reply) => {
    for (let i = 0; i < blockCount; i++) {
      reply(answerBytes(request, new Uint8Array(new Float32Array(blockFloats).fill(i).buffer), { total, offset: i * blockFloats * 4 }));
    }
    reply(answerBytes(request, new Uint8Array(lens.buffer), { total, offset: total - lens.byteLength }));
  };
  const { vals, lens: received } = await stage.run(stage.kv.pullPairs(KEYS));
  assert.deepEqual([...(received ?? [])], [...lens]);
  for (let i = 0; i < blockCount; i++) assert.deepEqual([vals[i * blockFloats], vals[(i + 1) * blockFloats - 1]], [i, i]);
  await stage.close();
});

test("lengths in an answer that lie fail the pull", async () => {
  const stage = await Stage.open();
  for (const lens of [
    [1, 2],
    [3, 0],
    [-1, 2],
    [2 ** 30, 1],
  ]) {
    const payload = kvPayload([], [7], lens);
    stage.server.serve = (request, reply) => reply(answerBytes(request, payload, { total: payload.length, offset: 0 }));
    assert.equal(await stage.outcome(stage.kv.pullPairs(KEYS)), "BAD_REQUEST", `lens ${lens.join()}`);
  }
  await stage.close();
});

test("values of another length than asked for fail the pull and touch nothing", async () => {
  const stage = await Stage.open();
  for (const byteCount of [0, 4, 12, 200, 4096]) {
    const values = new Float32Array(2).fill(-1);
    stage.server.serve = (request, reply) => reply(answerBytes(request, new Uint8Array(byteCount), { total: byteCount, offset: 0 }));
    assert.equal(await stage.outcome(stage.kv.wait(stage.kv.pull(KEYS, values))), "VALUE_LENGTH");
    assert.deepEqual([...values], [-1, -1]);
  }
  await stage.close();
});

test("a failure that cannot be read breaks the link; the call is asked again on the next one", async () => {
  const stage = await Stage.open();
  stage.server.serve = ({ header }, reply) => {
    const { request, functionId } = header;
    if (stage.server.linkCount === 1) reply(frameBytes(Kind.FAILURE, { request, functionId }, encodeJson({ code: 7 })));
    else reply(frameBytes(Kind.REPLY, { request, functionId }));
  };
  assert.equal(await stage.outcome(stage.kv.wait(stage.kv.push(KEYS, Float32Array.of(1, 2)))), "");
  assert.equal(stage.server.linkCount, 2);
  assert.equal(stage.worker.metrics.linksBroken, 1);
  await stage.close();
});

test("an answer that comes twice ends its call once and is counted", async () => {
  const stage = await Stage.open();
  stage.server.serve = ({ header: { request, functionId } }, reply) => {
    for (let i = 0; i < 3; i++) reply(frameBytes(Kind.REPLY, { request, functionId }));
  };
  for (let i = 0; i < 20; i++) assert.equal(await stage.outcome(stage.kv.wait(stage.kv.push(KEYS, Float32Array.of(1, 2)))), "");
  await stage.clock.advance(10);
  assert.equal(stage.worker.metrics.orphanAnswers, 40);
  await stage.close();
});

/** Answers with anything; at the end of its patience with a failure, so that every call ends. */
function answerAnything(random: Random): (request: RawFrame, reply: Reply) => void {
  const extremes = [0, 1, 4, 8, 12, 16, 24, 2 ** 20, 2 ** 40, 2 ** 52];
  const pick = <T>(items: readonly T[]): T => items[random.below(items.length)] as T;
  const legal = kvPayload([], [1, 2], [1, 1]);
  const failure = encodeJson({ code: "HANDLER_FAILED", message: "enough", retryable: false });
  return (request, reply) => {
    const { header } = request;
    const { functionId } = header;
    for (let i = random.below(3); i >= 0; i--) {
      const number = random.chance(0.9) ? header.request : Math.max(1, header.request - random.below(4));
      const payload = random.chance(0.5) ? legal : new Uint8Array(random.below(300));
      const extent = { total: random.chance(0.5) ? payload.length : pick(extremes), offset: random.chance(0.7) ? 0 : pick(extremes) };
      const flags = random.chance(0.7) ? 0 : pick([KvFlag.WHOLE, KvFlag.GATHERED, random.below(65_536)]);
      const roll = random.fraction();
      if (roll < 0.005) reply(new Uint8Array(64 + random.below(100)).fill(random.uint32()));
      else if (roll < 0.025) reply(frameBytes(Kind.NOTICE, { request: number }));
      else if (roll < 0.045) reply(frameBytes(Kind.FAILURE, { request: number, functionId }, payload));
      else
        reply(
          answerBytes({ ...request, header: Object.assign(new FrameHeader(), header, { request: number }) }, payload, extent, { flags }),
        );
    }
    reply(frameBytes(Kind.FAILURE, { request: header.request, functionId }, failure));
  };
}

for (const seed of [1, 2, 3]) {
  test(`for 3,000 calls answered with anything each ends, and only so (seed ${seed})`, async () => {
    const stage = await Stage.open();
    const random = new Random(seed);
    stage.server.serve = answerAnything(random);
    const { kv } = stage;
    const codes = new Map<string, number>();
    for (let i = 0; i < 3000; i++) {
      const values = new Float32Array(2);
      const calls = [
        () => kv.wait(kv.push(KEYS, values)),
        () => kv.wait(kv.pull(KEYS, values)),
        () => kv.wait(kv.pushPull(KEYS, values, new Float32Array(2))),
        () => kv.pullPairs(KEYS),
        () => kv.wait(kv.pull(KEYS, values, { lens: new Int32Array(2) })),
      ];
      const code = await stage.outcome((calls[random.below(calls.length)] as () => Promise<unknown>)());
      codes.set(code, (codes.get(code) ?? 0) + 1);
    }
    for (const code of ["", "VALUE_LENGTH", "BAD_FRAME", "BAD_REQUEST", "HANDLER_FAILED"])
      assert.ok(codes.has(code), `seed ${seed}: no ${code}`);
    assert.equal(stage.worker.failure, undefined);
    await stage.close();
  });
}
