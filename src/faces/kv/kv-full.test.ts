// Goal: a server that is full of kv values refuses new keys alone: what is there is read and added to, new links are
// taken, and the log says it in time.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../api/session.ts";
import { isWeighbridgeError, type WeighbridgeError } from "../../base/errors.ts";
import { MemoryCluster } from "../../testing/memory-cluster.ts";
import { idOf } from "../../wire/node-id.ts";
import { KVServer } from "./kv-server.ts";
import { KVWorker } from "./kv-worker.ts";

const MIB = 2 ** 20;
const BATCH = 4_000;
const keysFrom = (from: number, count: number): BigUint64Array => BigUint64Array.from({ length: count }, (_, i) => BigInt(from + i));

/** A worker that waits for what it asks. */
class Requester {
  readonly kv: KVWorker;
  readonly #cluster: MemoryCluster;

  constructor(cluster: MemoryCluster, kv: KVWorker) {
    this.#cluster = cluster;
    this.kv = kv;
  }

  async push(keys: BigUint64Array, width: number): Promise<void> {
    await this.#cluster.run(this.kv.wait(this.kv.push(keys, new Float32Array(keys.length * width).fill(1))));
  }

  async pull(keys: BigUint64Array, width: number): Promise<Float32Array> {
    const out = new Float32Array(keys.length * width);
    await this.#cluster.run(this.kv.wait(this.kv.pull(keys, out)));
    return out;
  }

  /** Pushes new keys, `batch` at a time, until they are refused; returns how many there are. */
  async fill(width: number, batch: number): Promise<number> {
    for (let count = 0; ; count += batch) {
      try {
        await this.push(keysFrom(count, batch), width);
      } catch (thrown) {
        assert.ok(isWeighbridgeError(thrown, "ARENA_FULL"), String(thrown));
        return count;
      }
    }
  }
}

test("a server that is full of narrow values is read and added to, and has warned at 80 and 95 percent", async () => {
  const cluster = await MemoryCluster.start({ arenaBytesMax: 16 * MIB });
  new KVServer(cluster.server(), 0);
  const requester = new Requester(cluster, new KVWorker(cluster.worker(), 0));
  const count = await requester.fill(16, BATCH);
  const warnings = cluster.logLines.filter((line) => /memory for parameters is \d+ % full/.test(line));
  assert.equal(warnings.length, 2, cluster.logLines.join("\n"));
  for (let round = 2; round <= 3; round++) {
    await requester.push(keysFrom(0, count), 16);
    const values = await requester.pull(keysFrom(0, count), 16);
    assert.ok(values.every((value) => value === round));
  }
  assert.deepEqual(await requester.pull(keysFrom(count + 5, 100), 16), new Float32Array(1600));
  await assert.rejects(requester.push(keysFrom(count, BATCH), 16), /no room for .* kept for reads and checkpoints/);
  await cluster.finalize();
});

test("a server that is full of large values is read and added to at once, as often as one likes", async () => {
  const cluster = await MemoryCluster.start({ arenaBytesMax: 16 * MIB });
  new KVServer(cluster.server(), 0);
  const requester = new Requester(cluster, new KVWorker(cluster.worker(), 0));
  const width = 300_000;
  const count = await requester.fill(width, 1);
  assert.ok(count > 3, `${count} values`);
  for (let round = 1; round <= 3; round++) {
    const pulls = Array.from({ length: count }, (_, key) => requester.pull(keysFrom(key, 1), width));
    // While the blocks are being sent.
    const pushes = Array.from({ length: count }, (_, key) => requester.push(keysFrom(key, 1), width));
    for (const values of await Promise.all(pulls)) assert.ok(values.every((value) => value === round));
    await Promise.all(pushes);
  }
  await assert.rejects(requester.push(keysFrom(count, 1), width), { code: "ARENA_FULL" });
  await cluster.finalize();
});

test("a link to a full server is read elsewhere than in the arena, and served all the same", async () => {
  const cluster = await MemoryCluster.start({ arenaBytesMax: 16 * MIB });
  new KVServer(cluster.server(), 0);
  const requester = new Requester(cluster, new KVWorker(cluster.worker(), 0));
  const session = await cluster.run(Session.open(cluster.worker().node));
  const table = await cluster.run(session.embedding("table", { dim: 2, optimizer: "sum" }));
  const rows = Array.from({ length: 1000 }, (_, key) => key);
  await cluster.run(table.push(rows, new Float32Array(2000).fill(1)));
  const count = await requester.fill(16, BATCH);
  const beyond = cluster.server().server?.arena ?? assert.fail("there is a server");
  // As with an arena of 4 GiB.
  for (let byteCount = 2 ** 30; byteCount >= 2 ** 16; byteCount /= 2) while (beyond.tryAllocateBeyond(byteCount) !== 0);
  cluster.links.get(idOf("worker", 0))?.[1]?.destroy(); // to server 0: it dials again
  cluster.settleFrames(1);
  const { arena } = cluster.server().server ?? assert.fail("there is a server");
  while (arena.tryAllocateState(64) !== 0); // what the link gave back is taken as well
  assert.ok((await requester.pull(keysFrom(0, count), 16)).every((value) => value === 1));
  await requester.push(keysFrom(0, count), 16);
  assert.ok((await requester.pull(keysFrom(0, count), 16)).every((value) => value === 2));
  await cluster.run(table.push(rows, new Float32Array(2000).fill(1)));
  assert.ok((await cluster.run(table.pull(rows))).every((value) => value === 2));
  await cluster.finalize();
});

test("sums of other types than floats are read and added to on a server that is full of floats, and on one that is full of them", async () => {
  const cluster = await MemoryCluster.start({ arenaBytesMax: 16 * MIB });
  new KVServer(cluster.server(), 0);
  new KVServer(cluster.server(), 1);
  const kv = new KVWorker(cluster.worker(), 1);
  const push = async (keys: BigUint64Array): Promise<void> => {
    await cluster.run(kv.wait(kv.push(keys, new Int32Array(keys.length).fill(1))));
  };
  const pull = async (keys: BigUint64Array): Promise<Int32Array> => {
    const out = new Int32Array(keys.length);
    await cluster.run(kv.wait(kv.pull(keys, out)));
    return out;
  };
  const known = keysFrom(0, 1000);
  await push(known);
  await new Requester(cluster, new KVWorker(cluster.worker(), 0)).fill(16, BATCH);
  await push(known);
  assert.ok((await pull(known)).every((value) => value === 2));
  let isFull = false;
  for (let from = 1000; !isFull; from += BATCH) {
    await push(keysFrom(from, BATCH)).catch((thrown: unknown) => {
      assert.ok(isWeighbridgeError(thrown, "ARENA_FULL"), String(thrown));
      isFull = true;
    });
  }
  await push(known);
  assert.ok((await pull(known)).every((value) => value === 3));
  assert.deepEqual(await pull(keysFrom(2 ** 40, 2)), new Int32Array(2), "a key that is not there reads as zeros, as ever");
  await cluster.finalize();
});

test("a push that a full server refuses and another applies names both; one in several pieces says how many were applied", async () => {
  const cluster = await MemoryCluster.start({ serverCount: 2, arenaBytesMax: 16 * MIB });
  for (const rank of [0, 1]) new KVServer(cluster.server(rank), 0);
  const requester = new Requester(cluster, new KVWorker(cluster.worker(), 0));
  const second = 2n ** 63n;
  const on = (rank: number, from: number, count: number): BigUint64Array => keysFrom(from, count).map((key) => key + BigInt(rank) * second);
  const failureOf = async (keys: BigUint64Array): Promise<WeighbridgeError> =>
    await requester.push(keys, 16).then(
      () => assert.fail("it was taken"),
      (thrown: unknown) => (isWeighbridgeError(thrown, "ARENA_FULL") ? thrown : assert.fail(String(thrown))),
    );
  const countOf = async (keys: BigUint64Array): Promise<number> => {
    const values = await requester.pull(keys, 16);
    return keys.filter((_, i) => values[i * 16] !== 0).length;
  };

  const many = on(1, 0, 300_000); // more than it has room for
  const torn = await failureOf(many);
  const [, some, all] = /applied in part: (\d+) of its (\d+) pieces by server 1$/.exec(torn.message) ?? [];
  const [pieces, pieceCount] = [Number(some), Number(all)];
  assert.ok(pieces > 0 && pieces < pieceCount, torn.message);
  const ofPieces = (await countOf(many)) / (many.length / pieceCount);
  assert.ok(Math.abs(ofPieces - pieces) <= 1, `${ofPieces} of ${pieceCount} are there: ${torn.message}`);

  const both = BigUint64Array.of(...on(0, 0, 1000), ...on(1, 2 ** 40, 4000));
  const parted = await failureOf(both);
  assert.match(parted.message, /applied in part: applied by server 0, not by server 1$/);
  assert.deepEqual([parted.retryable, await countOf(both.subarray(0, 1000)), await countOf(both.subarray(1000))], [false, 1000, 0]);

  const refused = await failureOf(on(1, 2 ** 41, 4000));
  assert.doesNotMatch(refused.message, /applied in part/);
  await cluster.finalize();
});

test("a pushPull for whose answer a server has no memory says that it was applied, and is not worth a retry", async () => {
  const cluster = await MemoryCluster.start({ arenaBytesMax: 16 * MIB });
  new KVServer(cluster.server(), 0);
  const kv = new KVWorker(cluster.worker(), 0);
  const requester = new Requester(cluster, kv);
  const keys = keysFrom(0, 4000);
  await requester.push(keys, 16);
  const { arena } = cluster.server().server ?? assert.fail("there is a server");
  const taken: (readonly [number, number])[] = [];
  for (let byteCount = 2 ** 30; byteCount >= 2 ** 10; byteCount /= 2) {
    for (let address = arena.tryAllocateBeyond(byteCount); address !== 0; address = arena.tryAllocateBeyond(byteCount))
      taken.push([address, byteCount]);
    try {
      while (byteCount < 2 ** 25) taken.push([arena.allocate(byteCount), byteCount]);
    } catch (thrown) {
      assert.ok(isWeighbridgeError(thrown, "ARENA_FULL"), String(thrown));
    }
  }
  const into = new Float32Array(keys.length * 16);
  await assert.rejects(cluster.run(kv.wait(kv.pushPull(keys, new Float32Array(into.length).fill(1), into))), {
    code: "ANSWER_LOST",
    retryable: false,
    message: /^server 0: the push was applied, but there was no memory for what it came to: read it with a pull; no room for /,
  });
  for (const [address, byteCount] of taken) arena.release(address, byteCount);
  assert.ok((await requester.pull(keys, 16)).every((value) => value === 2));
  await cluster.finalize();
});
