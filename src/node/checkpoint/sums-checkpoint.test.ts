// Goal: what workers add up beside the parameters, through kv and pushData, is saved with them while they push, and
// comes back exactly on however many servers.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { temporaryFolder } from "../../../test/support/checkpoint-stage.ts";
import { Session } from "../../api/session.ts";
import { isWeighbridgeError } from "../../base/errors.ts";
import { SILENT_LOG } from "../../base/log.ts";
import { KVServer } from "../../faces/kv/kv-server.ts";
import { KVWorker } from "../../faces/kv/kv-worker.ts";
import type { Postoffice } from "../../faces/kv/postoffice.ts";
import { TensorWorker } from "../../faces/tensors/tensor-worker.ts";
import { type ElementArray, ElementType, elementArrayOf, elementBytesOf } from "../../kernel/elements.ts";
import { startOffice } from "../../testing/start-office.ts";
import { MemoryHub, MemoryTransport } from "../../transport/memory-transport.ts";
import { jobId } from "../../wire/hello.ts";
import type { Role } from "../../wire/node-id.ts";
import { realClock } from "../real-clock.ts";
import { checkpointOptions } from "../server-root.ts";
import { CheckpointReader } from "./checkpoint-reader.ts";
import { exportCheckpoint } from "./export-checkpoint.ts";
import { openCheckpoint } from "./find-checkpoint.ts";
import { verifyCheckpoint } from "./verify-checkpoint.ts";

type KvClusterOptions = {
  readonly servers: number;
  readonly workers?: number;
  /** Where checkpoints are. */
  readonly folder: string;
  readonly restore?: string | undefined;
  readonly arenaBytesMax?: number;
};

/** Offices inside the process, over memory links, whose servers save and restore checkpoints. */
class KvCluster implements AsyncDisposable {
  readonly servers: readonly Postoffice[];
  readonly workers: readonly Postoffice[];
  readonly sessions: readonly Session[];
  readonly #offices: readonly Postoffice[];
  readonly #kvs = new Map<string, KVWorker>();

  private constructor(offices: readonly Postoffice[], sessions: readonly Session[]) {
    this.#offices = offices;
    this.servers = offices.filter(({ role }) => role === "server");
    this.workers = offices.filter(({ role }) => role === "worker");
    this.sessions = sessions;
  }

  static async start({ servers, workers = 1, folder, restore, arenaBytesMax = 2 ** 26 }: KvClusterOptions): Promise<KvCluster> {
    const [hub, clock] = [new MemoryHub(), realClock()];
    const start = (role: Role, rank: number): Promise<Postoffice> =>
      startOffice({
        role,
        rank: role === "scheduler" ? undefined : rank,
        serverCount: servers,
        workerCount: workers,
        schedulerAddress: "memory://scheduler",
        listenAddress: role === "scheduler" ? "memory://scheduler" : `memory://${role}-${rank}`,
        meshAddress: `memory://worker-${rank}`,
        transport: new MemoryTransport({ clock, hub }),
        clock,
        log: SILENT_LOG,
        arenaBytesMax,
        jobId: jobId("kv", randomUUID()),
        incarnation: Date.now(),
        ...(role === "server" ? checkpointOptions({ checkpointDir: folder, restore }) : {}),
      });
    const ranks = (count: number): number[] => Array.from({ length: count }, (_, rank) => rank);
    const started = await Promise.all([
      start("scheduler", 0),
      ...ranks(servers).map((rank) => start("server", rank)),
      ...ranks(workers).map((rank) => start("worker", rank)),
    ]);
    const sessions = await Promise.all(started.filter(({ role }) => role === "worker").map(({ node }) => Session.open(node)));
    return new KvCluster(started, sessions);
  }

  get session(): Session {
    return this.sessions[0]!;
  }

  /** Opens an application on all servers. */
  serve(app: number): void {
    for (const server of this.servers) new KVServer(server, app);
  }

  kv(app: number, worker = 0): KVWorker {
    const name = `${app}/${worker}`;
    const known = this.#kvs.get(name) ?? new KVWorker(this.workers[worker]!, app);
    this.#kvs.set(name, known);
    return known;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#offices.map((office) => office.close()));
  }
}

const KEY_LAST = 2n ** 64n - 1n;
const TYPES = Object.values(ElementType);
/** Over the ranges of 1, 2 and 3 servers. */
const KEYS = BigUint64Array.of(0n, 3n, 2n ** 62n, 2n ** 63n - 1n, 2n ** 63n, KEY_LAST - 5n, KEY_LAST);

/** One, an odd number, several equal ones, and large ones of one block and of two. */
function lensOf(type: ElementType): Int32Array {
  const elementBytes = elementBytesOf(type);
  return Int32Array.of(1, 3, 3, 64, (16 * 1024) / elementBytes, 3, (520 * 1024) / elementBytes);
}

function valuesOf(type: ElementType, count: number): ElementArray {
  const values = new (elementArrayOf(type))(new ArrayBuffer(count * elementBytesOf(type)), 0, count);
  for (let i = 0; i < count; i++) {
    if (values instanceof BigInt64Array || values instanceof BigUint64Array) values[i] = 2n ** 62n + BigInt(i);
    else values[i] = (i % 100) + 1;
  }
  return values;
}

function timesOf(values: ElementArray, times: number): ElementArray {
  const sums = values.slice();
  for (let i = 0; i < sums.length; i++) {
    if (sums instanceof BigInt64Array || sums instanceof BigUint64Array) sums[i] = (values[i] as bigint) * BigInt(times);
    else sums[i] = (values[i] as number) * times;
  }
  return sums;
}

const total = (lens: Int32Array): number => lens.reduce((sum, length) => sum + length, 0);

test("values of all ten types and of several widths, saved by two servers, are the same on one, three and two", async () => {
  using folder = temporaryFolder();
  const expected = new Map<ElementType, ElementArray>();
  let path = "";
  {
    await using cluster = await KvCluster.start({ servers: 2, folder: folder.path });
    for (const type of TYPES) {
      cluster.serve(type);
      const kv = cluster.kv(type);
      const lens = lensOf(type);
      const values = valuesOf(type, total(lens));
      for (let i = 0; i < 3; i++) await kv.wait(kv.push(KEYS, values, { lens }));
      expected.set(type, timesOf(values, 3));
    }
    ({ path } = await cluster.session.checkpoint().saved);
    const kv = cluster.kv(ElementType.F32);
    const lens = lensOf(ElementType.F32);
    await kv.wait(kv.push(KEYS, valuesOf(ElementType.F32, total(lens)), { lens })); // not in it
  }
  assert.deepEqual((await verifyCheckpoint(path)).problems, []);
  for (const servers of [1, 3, 2]) {
    await using cluster = await KvCluster.start({ servers, folder: folder.path, restore: path });
    for (const type of TYPES) {
      cluster.serve(type);
      const kv = cluster.kv(type);
      const lens = lensOf(type);
      const [outs, outLens] = [valuesOf(type, total(lens)), new Int32Array(lens.length)];
      await kv.wait(kv.pull(KEYS, outs, { lens: outLens }));
      assert.deepEqual([outLens, outs], [lens, expected.get(type)], `type ${type} on ${servers} servers`);
      await kv.wait(kv.push(KEYS, valuesOf(type, total(lens)), { lens }));
      await kv.wait(kv.pull(KEYS, outs, { lens: outLens }));
      assert.deepEqual(outs, timesOf(valuesOf(type, total(lens)), 4), `type ${type} pushed on`);
      await assert.rejects(kv.wait(kv.push(KEYS.slice(1, 2), valuesOf(type, 2))), (error) => isWeighbridgeError(error, "VALUE_LENGTH"));
    }
  }
});

test("a checkpoint that is taken while workers push has every push to a server whole or not at all, and those of before", async () => {
  using folder = temporaryFolder();
  const width = 5;
  const keys = BigUint64Array.from({ length: 3000 }, (_, i) => (BigInt(i) * KEY_LAST) / 3000n);
  const large = BigUint64Array.of(1n, 2n ** 63n + 1n);
  const largeWidth = 40_000;
  let path = "";
  {
    await using cluster = await KvCluster.start({ servers: 2, workers: 2, folder: folder.path });
    cluster.serve(0);
    cluster.serve(1);
    const [narrow, wide] = [new BigInt64Array(keys.length * width).fill(1n), new Float32Array(2 * largeWidth).fill(1)];
    const push = async (worker: number): Promise<void> => {
      const [ints, floats] = [cluster.kv(0, worker), cluster.kv(1, worker)];
      await Promise.all([ints.wait(ints.push(keys, narrow)), floats.wait(floats.push(large, wide))]);
    };
    for (let i = 0; i < 5; i++) await push(0);
    let isOver = false;
    const taking = cluster.session.checkpoint().saved.finally(() => {
      isOver = true;
    });
    let pushed = 0;
    await Promise.all([
      taking,
      ...[0, 1].map(async (worker) => {
        while (!isOver) {
          await push(worker);
          pushed++;
        }
      }),
    ]);
    assert.ok(pushed > 0, "workers pushed meanwhile");
    ({ path } = await taking);
  }
  assert.deepEqual((await verifyCheckpoint(path)).problems, []);
  await using cluster = await KvCluster.start({ servers: 3, folder: folder.path, restore: path });
  cluster.serve(0);
  cluster.serve(1);
  const [ints, floats] = [cluster.kv(0), cluster.kv(1)];
  const [outs, outLarge] = [new BigInt64Array(keys.length * width), new Float32Array(2 * largeWidth)];
  await ints.wait(ints.pull(keys, outs));
  await floats.wait(floats.pull(large, outLarge));
  const half = (keys.length / 2) * width;
  for (const part of [outs.subarray(0, half), outs.subarray(half)]) {
    assert.equal(new Set(part).size, 1, "a push to a server is in it whole");
    assert.ok(part[0]! >= 5n, `${part[0]} pushes`);
  }
  for (const part of [outLarge.subarray(0, largeWidth), outLarge.subarray(largeWidth)]) {
    assert.equal(new Set(part).size, 1);
    assert.ok(part[0]! >= 5, `${part[0]} pushes`);
  }
});

test("data of pushData is saved and restored on any number of servers, arrays of no values and long ones too", async () => {
  using folder = temporaryFolder();
  const indexes = Array.from({ length: 40 }, (_, i) => BigInt(i) * 7n);
  const lengths = indexes.map((_, i) => (i === 0 ? 0 : i === 1 ? 200_000 : (i % 5) + 1));
  const values = Float32Array.from({ length: lengths.reduce((sum, length) => sum + length, 0) }, (_, i) => i % 1000);
  let path = "";
  {
    await using cluster = await KvCluster.start({ servers: 2, folder: folder.path });
    const worker = new TensorWorker(cluster.session);
    for (let i = 0; i < 2; i++) await worker.waitData(worker.pushData(indexes, values, lengths));
    ({ path } = await cluster.session.checkpoint().saved);
  }
  for (const servers of [1, 3]) {
    await using cluster = await KvCluster.start({ servers, folder: folder.path, restore: path });
    const worker = new TensorWorker(cluster.session);
    const into = new Float32Array(values.length);
    await worker.waitData(worker.pullData(indexes, into, lengths));
    assert.deepEqual(
      into,
      values.map((value) => 2 * value),
    );
    await worker.waitData(worker.pushData(indexes, values, lengths));
    await worker.waitData(worker.pullData(indexes, into, lengths));
    assert.deepEqual(
      into,
      values.map((value) => 3 * value),
    );
  }
});

test("a session restores sums too, before anything is pushed and not after; an application that is made later has them", async () => {
  using folder = temporaryFolder();
  {
    await using cluster = await KvCluster.start({ servers: 2, folder: folder.path });
    cluster.serve(4);
    const kv = cluster.kv(4);
    await kv.wait(kv.push(KEYS, new Int16Array(KEYS.length).fill(7)));
    await cluster.session.checkpoint().saved;
    await assert.rejects(
      cluster.session.restore(),
      (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && /server \d has values of kv application 4/.test(error.message),
    );
  }
  await using cluster = await KvCluster.start({ servers: 1, folder: folder.path });
  const restored = await cluster.session.restore();
  assert.deepEqual(restored.parameters, [], "sums are no parameters");
  assert.deepEqual(restored.sums, ["wb/sums/kv/4/I16/1"]);
  const kv = cluster.kv(4);
  const pulled = kv.pull(KEYS, new Int16Array(KEYS.length)); // waits for its application
  const outs = new Int16Array(KEYS.length);
  const timestamp = kv.pull(KEYS, outs);
  cluster.serve(4);
  await kv.wait(pulled);
  await kv.wait(timestamp);
  assert.deepEqual(outs, new Int16Array(KEYS.length).fill(7));
  await assert.rejects(kv.wait(kv.push(KEYS, new Float32Array(KEYS.length))), (error) => isWeighbridgeError(error, "UNSUPPORTED"));
});

test("where an application cuts its keys itself its sums are restored on as many servers, and on others refused by name", async () => {
  using folder = temporaryFolder();
  const keys = BigUint64Array.of(1n, 2n, 3n, 4n); // all of them in the range of server 0
  let path = "";
  {
    await using cluster = await KvCluster.start({ servers: 2, folder: folder.path });
    cluster.serve(0);
    const kv = cluster.kv(0);
    kv.setSlicer((list) => [0, 1, list.length]);
    await kv.wait(kv.push(keys, Float64Array.of(1, 2, 3, 4)));
    ({ path } = await cluster.session.checkpoint().saved);
  }
  await assert.rejects(
    KvCluster.start({ servers: 3, folder: folder.path, restore: path }),
    (error) =>
      isWeighbridgeError(error) &&
      /is of 2 servers and cannot be restored on 3: an application of this job chose the servers/.test(error.message),
  );
  await using cluster = await KvCluster.start({ servers: 2, folder: folder.path, restore: path });
  cluster.serve(0);
  const kv = cluster.kv(0);
  kv.setSlicer((list) => [0, 1, list.length]);
  const outs = new Float64Array(4);
  await kv.wait(kv.pull(keys, outs));
  assert.deepEqual(outs, Float64Array.of(1, 2, 3, 4));
});

test("sums are shown and exported with their type and width; a parameter that is saved alone has none, nor has a handle of the user's own", async () => {
  using folder = temporaryFolder();
  await using cluster = await KvCluster.start({ servers: 2, folder: folder.path });
  cluster.serve(0);
  for (const server of cluster.servers) {
    const own = new KVServer(server, 1);
    own.setRequestHandle((meta) => own.response(meta));
  }
  const tensor = await cluster.session.tensor("dense", { shape: [4], optimizer: "sum" });
  await tensor.push(new Float32Array(4).fill(1));
  const [kv, handled] = [cluster.kv(0), cluster.kv(1)];
  await kv.wait(kv.push(KEYS, new Uint16Array(3 * KEYS.length).fill(9)));
  await handled.wait(handled.push(KEYS, new Float32Array(KEYS.length)));
  const { path } = await cluster.session.checkpoint().saved;
  await using reader = await CheckpointReader.open(path);
  assert.deepEqual(
    reader.manifest.parameters.map(({ name, kind, rowCount, width }) => ({ name, kind, rowCount, width })),
    [
      { name: "dense", kind: "tensor", rowCount: 4, width: 1 },
      { name: "wb/sums/kv/0/U16/3", kind: "sums", rowCount: KEYS.length, width: 3 },
    ],
  );
  const { tensors } = await exportCheckpoint(reader, `${folder.path}/model.safetensors`);
  assert.deepEqual(
    tensors.map(({ name, dtype, shape }) => [name, dtype, shape]),
    [
      ["dense", "F32", [4]],
      ["wb/sums/kv/0/U16/3/keys", "U64", [KEYS.length]],
      ["wb/sums/kv/0/U16/3/values", "U16", [KEYS.length, 3]],
    ],
  );
  await cluster.session.saveParameter("dense", "alone");
  await using alone = await openCheckpoint(`${folder.path}/alone/dense`);
  assert.deepEqual(
    alone.manifest.parameters.map(({ name }) => name),
    ["dense"],
  );
  await assert.rejects(cluster.session.tensor("wb/sums/mine", { shape: [1], optimizer: "sum" }), (error) =>
    isWeighbridgeError(error, "BAD_ARGUMENT"),
  );
});

const isFull = (thrown: unknown): boolean => isWeighbridgeError(thrown, "ARENA_FULL");

for (const type of [ElementType.F32, ElementType.I64, ElementType.I8]) {
  test(`a server that is full of sums (type ${type}) is read, pushed to and saved while it is, and what it held fits one of the same size`, async () => {
    using folder = temporaryFolder();
    const arenaBytesMax = 16 * 2 ** 20;
    const width = 96 / elementBytesOf(type);
    const batch = 1000;
    const keysFrom = (from: number, count: number): BigUint64Array => BigUint64Array.from({ length: count }, (_, i) => BigInt(from + i));
    const ones = (count: number): ElementArray => {
      const values = new (elementArrayOf(type))(new ArrayBuffer(count * width * elementBytesOf(type)), 0, count * width);
      return values instanceof BigInt64Array || values instanceof BigUint64Array ? values.fill(1n) : values.fill(1);
    };
    let [path, keyCount] = ["", 0];
    {
      await using cluster = await KvCluster.start({ servers: 1, folder: folder.path, arenaBytesMax });
      cluster.serve(0);
      const kv = cluster.kv(0);
      await kv.wait(kv.push(BigUint64Array.of(KEY_LAST), ones(1).subarray(0, 1) as ElementArray)); // a second width
      for (let count = batch; count >= 1; ) {
        try {
          await kv.wait(kv.push(keysFrom(keyCount, count), ones(count)));
          keyCount += count;
        } catch (thrown) {
          assert.ok(isFull(thrown), String(thrown));
          count = Math.floor(count / 2);
        }
      }
      assert.ok(keyCount > 50_000, `${keyCount} keys`);
      const known = keysFrom(0, 2000);
      let isOver = false;
      const taking = cluster.session.checkpoint().saved.finally(() => {
        isOver = true;
      });
      while (!isOver) await kv.wait(kv.push(known, ones(known.length)));
      ({ path } = await taking);
      await assert.rejects(kv.wait(kv.push(keysFrom(keyCount, batch), ones(batch))), isFull);
    }
    assert.deepEqual((await verifyCheckpoint(path)).problems, []);
    await using cluster = await KvCluster.start({ servers: 1, folder: folder.path, arenaBytesMax, restore: path });
    cluster.serve(0);
    const kv = cluster.kv(0);
    const rest = keysFrom(2000, 20_000);
    const outs = ones(rest.length);
    await kv.wait(kv.pull(rest, outs));
    assert.deepEqual(outs, ones(rest.length));
    await assert.rejects(kv.wait(kv.push(keysFrom(keyCount, batch), ones(batch))), isFull);
    await kv.wait(kv.push(rest, ones(rest.length)));
  });
}
