// Goal: whatever a parameter's link carries, values come within what its codec promises, exactly for those that lose
// nothing; sums over time lose nothing; and repeated key lists travel once.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { TensorOptions } from "../api/parameter-options.ts";
import type { Session } from "../api/session.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import { Random } from "../base/random.ts";
import type { LinkEncoding, ValueCodecChoice } from "../wire/codecs/link-encoding.ts";
import { EmbeddedCluster } from "./embedded-cluster.ts";

type Link = Partial<LinkEncoding>;

/** How far one value may be off, by the largest magnitude of its row. */
const CODECS: readonly { readonly codec: Exclude<ValueCodecChoice, object>; readonly error: (value: number, rowMax: number) => number }[] =
  [
    { codec: "f32", error: () => 0 },
    { codec: "fp16", error: (value) => Math.max(Math.abs(value) * 2 ** -11, 2 ** -25) },
    { codec: "bf16", error: (value) => Math.abs(value) * 2 ** -8 },
    { codec: "int8", error: (_, rowMax) => (rowMax / 127) * (0.5 + 2 ** -15) },
    { codec: "int8-centred", error: (_, rowMax) => (rowMax / 127) * (0.5 + 2 ** -15) + 2 ** -23 * rowMax },
  ];

function gradientOf(seed: number, count: number, density = 1): Float32Array {
  const random = new Random(seed);
  return Float32Array.from({ length: count }, () => (random.chance(density) ? random.fraction() * 4 - 2 : 0));
}

function assertClose(actual: Float32Array, expected: Float32Array, width: number, error: (value: number, rowMax: number) => number): void {
  assert.equal(actual.length, expected.length);
  for (let from = 0; from < expected.length; from += width) {
    const row = expected.subarray(from, from + width);
    const rowMax = row.reduce((max, value) => Math.max(max, Math.abs(value)), 0);
    for (const [j, value] of row.entries()) {
      const off = Math.abs((actual[from + j] as number) - value);
      assert.ok(off <= error(value, rowMax), `element ${from + j}: ${actual[from + j]} for ${value}`);
    }
  }
}

/** Runs with one server and with two. */
async function withServers(run: (session: Session, servers: number) => Promise<void>): Promise<void> {
  for (const servers of [1, 2]) {
    await using cluster = await EmbeddedCluster.start({ servers });
    await run(cluster.session, servers);
  }
}

test("a tensor's values come within what the codec of each direction promises, with and without compression", async () => {
  await withServers(async (session) => {
    for (const { codec, error } of CODECS) {
      for (const compression of ["none", "zstd"] as const) {
        const shape = [5000, 64]; // three blocks, the last one shorter
        const gradient = gradientOf(1, 5000 * 64, 0.2);
        const pushed = await session.tensor(`push ${codec} ${compression}`, {
          shape,
          optimizer: "sum",
          link: { push: codec, compression },
        });
        await pushed.push(gradient);
        assertClose(await pushed.pull(), gradient, 64, error);
        const pulled = await session.tensor(`pull ${codec} ${compression}`, {
          shape,
          optimizer: "sum",
          link: { pull: codec, compression },
        });
        await pulled.push(gradient);
        assertClose(await pulled.pull(), gradient, 64, error);
        const both = await session.tensor(`both ${codec} ${compression}`, { shape, optimizer: "sum", link: { push: codec, compression } });
        assertClose(await both.pushPull(gradient, "all"), gradient, 64, error);
      }
    }
  });
});

test("rows of a tensor travel by the same codecs, and those that are named twice are added first", async () => {
  await withServers(async (session) => {
    for (const { codec, error } of CODECS) {
      const w = await session.tensor(`w ${codec}`, { shape: [9000, 32], optimizer: "sum", link: { push: codec } });
      const rows = [8999, 3, 3, 4097];
      const gradients = gradientOf(2, rows.length * 32);
      await w.pushRows(rows, gradients);
      const sum = Float32Array.from({ length: 32 }, (_, j) => Math.fround(gradients[32 + j]! + gradients[64 + j]!));
      assertClose(await w.pullRows([3, 8999]), Float32Array.of(...sum, ...gradients.subarray(0, 32)), 32, error);
      const pulled = await session.tensor(`pulled ${codec}`, { shape: [9000, 32], optimizer: "sum", link: { pull: codec } });
      await pulled.pushRows(rows, gradients);
      assertClose(
        await pulled.pullRows([8999, 3, 8999, 5]).then((all) => all.subarray(0, 96)),
        Float32Array.of(...gradients.subarray(0, 32), ...sum, ...gradients.subarray(0, 32)),
        32,
        error,
      );
      await w.pushRows([], new Float32Array(0));
      assert.equal((await w.pullRows([])).length, 0);
    }
  });
});

test("vectors, and tensors whose rows are longer than a block, share a scale among up to 128 values", async () => {
  await withServers(async (session) => {
    for (const shape of [[1000], [7], [300_001], [2, 140_000], []]) {
      const w = await session.tensor(`w ${shape.join(" ")}`, { shape, optimizer: "sum", link: { push: "int8" } });
      const gradient = gradientOf(3, w.size);
      await w.push(gradient);
      assertClose(await w.pull(), gradient, 1, () => (2 / 127) * 0.51);
    }
  });
});

test("rows of a table come within what the codec of each direction promises, duplicates summed, in the caller's order", async () => {
  const random = new Random(5);
  const keys = BigUint64Array.from({ length: 3000 }, () =>
    random.chance(0.5) ? BigInt(random.below(1000)) : BigInt(random.below(2 ** 30)) << 30n,
  );
  const gradients = gradientOf(6, keys.length * 16, 0.3);
  const sums = new Map<bigint, Float32Array>();
  keys.forEach((key, i) => {
    const sum = sums.get(key) ?? new Float32Array(16);
    for (let j = 0; j < 16; j++) sum[j] = sum[j]! + gradients[i * 16 + j]!;
    sums.set(key, sum);
  });
  const asked = BigUint64Array.of(...[...sums.keys()].reverse(), 2n ** 64n - 1n, keys[0]!, keys[0]!);
  const expected = Float32Array.from([...asked].flatMap((key) => [...(sums.get(key) ?? new Float32Array(16))]));
  await withServers(async (session) => {
    for (const { codec, error } of CODECS) {
      const links: Link[] = [
        { push: codec },
        { pull: codec, keys: "raw" },
        { push: codec, keyCache: true },
        { pull: codec, compression: "zstd" },
      ];
      for (const [i, link] of links.entries()) {
        const table = await session.embedding(`${codec} ${i}`, { dim: 16, optimizer: "sum", link });
        await table.push(keys, gradients);
        assertClose(await table.pull(asked), expected, 16, error);
        assertClose(await table.pull(asked), expected, 16, error); // by name, where lists are
        await table.push([], new Float32Array(0));
        assert.equal((await table.pull([])).length, 0);
      }
    }
  });
});

test("keys that ascend, do not, or are one travel in one piece and in many", async () => {
  await withServers(async (session) => {
    const table = await session.embedding("e", { dim: 8, optimizer: "sum", link: { keyCache: true } });
    for (const count of [1, 17, 40_000]) {
      const keys = BigUint64Array.from({ length: count }, (_, i) => BigInt((i * 7919) % 40_009));
      const ones = new Float32Array(count * 8).fill(1);
      const before = await table.pull(keys);
      await table.push(keys, ones);
      assert.deepEqual(
        await table.pull(keys),
        before.map((value) => value + 1),
        `${count} keys`,
      );
      const ascending = keys.toSorted();
      await table.push(ascending, ones);
      assert.deepEqual(
        await table.pull(keys),
        before.map((value) => value + 2),
        `${count} ascending keys`,
      );
    }
  });
});

test("a pull sees every earlier push of its worker without waiting for it, keys by name included", async () => {
  await withServers(async (session) => {
    const table = await session.embedding("e", { dim: 4, optimizer: "sum", link: { keyCache: true, push: "fp16" } });
    const lists = Array.from({ length: 50 }, (_, list) => BigUint64Array.from({ length: 20 }, (_, i) => BigInt(list * 100 + i)));
    const ones = new Float32Array(80).fill(1);
    for (let round = 1; round <= 6; round++) {
      const pushes = lists.map((keys, i) => table.push(keys, ones, { priority: -(i % 5) }));
      const pulled = await Promise.all(lists.map((keys) => table.pull(keys, { priority: 9 })));
      for (const [i, rows] of pulled.entries()) assert.deepEqual(rows, new Float32Array(80).fill(round), `round ${round}, list ${i}`);
      await Promise.all(pushes);
    }
  });
});

test("top-k: what was sent and what is kept add up to all gradients, and a flush or the end of the session sends the rest", async () => {
  for (const servers of [1, 2]) {
    await using cluster = await EmbeddedCluster.start({ servers, workers: 2 });
    const [one, two] = cluster.sessions;
    assert.ok(one !== undefined && two !== undefined);
    const options: TensorOptions = { shape: [400, 500], optimizer: "sum", link: { push: { topK: 0.01 } } };
    const w = await one.tensor("w", options);
    const again = await one.tensor("w", options); // shares what is kept
    const other = await two.tensor("w", options);
    const total = new Float32Array(w.size);
    for (let step = 0; step < 5; step++) {
      // Multiples of 2^-6 are added without rounding, so that the sum can be exact.
      const gradient = gradientOf(step, w.size).map((value) => Math.round(value * 64) / 64);
      for (let i = 0; i < total.length; i++) total[i]! += gradient[i]!;
      if (step % 2 === 0) await w.push(gradient);
      else await again.pushPull(gradient, "all");
    }
    const early = await other.pull();
    const changed = early.filter((value) => value !== 0).length;
    assert.ok(changed > 0 && changed <= w.size * 0.051, `${changed} elements`);
    await w.flushResidual();
    assert.deepEqual(await other.pull(), total);
    await w.flushResidual();
    assert.deepEqual(await other.pull(), total, "nothing is sent twice");
    const last = new Float32Array(w.size).fill(0.5);
    await w.push(last);
    await one.close({ barrier: false });
    assert.deepEqual(
      await other.pull(),
      total.map((value) => value + 0.5),
    );
  }
});

test("top-k: gradients are clipped before they are kept, and a push that fails is not", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const { session } = cluster;
  const w = await session.tensor("w", { shape: [4], optimizer: { type: "sum", clipNorm: 1 }, link: { push: { topK: 0.25 } } });
  await w.push(Float32Array.of(3, 4, 0, 0));
  await w.flushResidual();
  assertClose(await w.pull(), Float32Array.of(3 / 5, 4 / 5, 0, 0), 4, () => 1e-6);
  const optimizer = { type: "sum", nonFinite: "zero" } as const; // so that it is encoded
  const large = await session.tensor("large", { shape: [300_000], optimizer, link: { push: { topK: 0.5 } } });
  const wrong = new Float32Array(300_000).fill(1);
  wrong[299_999] = Number.NaN; // in the last of three blocks
  await assert.rejects(large.push(wrong), (error) => isWeighbridgeError(error, "BAD_ARGUMENT"));
  await large.flushResidual();
  assert.deepEqual(await large.pull(), new Float32Array(300_000));
  const gone = await session.tensor("gone", { shape: [100], optimizer: "sum", link: { push: { topK: 0.1 } } });
  await session.tensor("gone", { shape: [100], optimizer: "sum", link: { push: { topK: 0.1 } } }).then((same) => same.drop());
  await assert.rejects(gone.push(new Float32Array(100).fill(1)), (error) => isWeighbridgeError(error, "UNKNOWN_PARAMETER"));
  const anew = await session.tensor("gone", { shape: [100], optimizer: "sum", link: { push: { topK: 0.1 } } });
  await anew.flushResidual();
  assert.deepEqual(await anew.pull(), new Float32Array(100), "what failed was taken back");
});

test("int8 pushes carry less than 30 % of the bytes, top-k of one in a hundred less than 3 %", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const { session } = cluster;
  const shape = [4000, 64];
  const sent = async (name: string, link: Link | undefined): Promise<number> => {
    const w = await session.tensor(name, { shape, optimizer: "sum", ...(link === undefined ? {} : { link }) });
    session.startRecord();
    await w.push(gradientOf(1, w.size));
    return [...session.takeLoads().values()].reduce((sum, { sentBytes }) => sum + sentBytes, 0);
  };
  const plain = await sent("plain", undefined);
  assert.ok((await sent("int8", { push: "int8" })) < 0.3 * plain);
  assert.ok((await sent("top-k", { push: { topK: 0.01 } })) < 0.03 * plain);
  assert.ok((await sent("fp16", { push: "fp16" })) < 0.51 * plain);
});

test("pulls carry less as well, and sparse values are compressed in both directions", async () => {
  await using cluster = await EmbeddedCluster.start();
  const { session } = cluster;
  const bytes = async (name: string, link: Link): Promise<{ sentBytes: number; receivedBytes: number }> => {
    const w = await session.tensor(name, { shape: [4000, 64], optimizer: "sum", link });
    session.startRecord();
    await w.push(gradientOf(1, w.size, 0.02));
    await w.pull();
    const total = { sentBytes: 0, receivedBytes: 0 };
    for (const load of session.takeLoads().values()) {
      total.sentBytes += load.sentBytes;
      total.receivedBytes += load.receivedBytes;
    }
    return total;
  };
  const plainBytes = 4000 * 64 * 4;
  assert.ok((await bytes("int8", { pull: "int8" })).receivedBytes < 0.3 * plainBytes);
  const { sentBytes, receivedBytes } = await bytes("zstd", { compression: "zstd" });
  assert.ok(sentBytes < 0.2 * plainBytes, `${sentBytes} sent`);
  assert.ok(receivedBytes < 0.2 * plainBytes, `${receivedBytes} received`);
});

test("a repeated key list travels once: then less than 1 % of its keys' bytes", async () => {
  await withServers(async (session, servers) => {
    const keys = BigUint64Array.from({ length: 20_000 }, (_, i) => BigInt(i) * 1_000_003n);
    const table = await session.embedding("e", { dim: 1, optimizer: "sum", link: { keyCache: true } });
    const sent = async (): Promise<number> => {
      session.startRecord();
      await table.pull(keys);
      return [...session.takeLoads().values()].reduce((sum, { sentBytes }) => sum + sentBytes, 0);
    };
    assert.ok((await sent()) > 2 * keys.length);
    for (let i = 0; i < 3; i++) assert.ok((await sent()) < 0.01 * keys.byteLength, `${servers} servers`);
    session.startRecord();
    await table.push(keys, new Float32Array(keys.length));
    const pushed = [...session.takeLoads().values()].reduce((sum, { sentBytes }) => sum + sentBytes, 0);
    assert.ok(pushed - 4 * keys.length < 0.01 * keys.byteLength, "a push names the list of a pull");
  });
});

test("more lists than a server holds still give the right rows", async () => {
  await using cluster = await EmbeddedCluster.start();
  const { session } = cluster;
  const table = await session.embedding("e", { dim: 1, optimizer: "sum", link: { keyCache: true } });
  const lists = Array.from({ length: 200 }, (_, list) => BigUint64Array.from({ length: 100 }, (_, i) => BigInt(list * 50 + i * 3)));
  const expected = new Map<bigint, number>();
  for (let round = 0; round < 3; round++) {
    for (const keys of lists) {
      await table.push(keys, new Float32Array(100).fill(1));
      for (const key of keys) expected.set(key, (expected.get(key) ?? 0) + 1);
    }
  }
  for (const keys of lists)
    assert.deepEqual(
      [...(await table.pull(keys))],
      Array.from(keys, (key) => expected.get(key) ?? 0),
    );
});

test("calls that push and pull rows at once travel by the codecs too, and what they pull has seen what they pushed", async () => {
  await withServers(async (session) => {
    for (const link of [{ push: "fp16" }, { pull: "fp16" }, { push: "int8", pull: "fp16", keyCache: true }] as const) {
      const [rowCount, width] = [2000, 64];
      const name = JSON.stringify(link);
      const rows = Uint32Array.from({ length: rowCount }, (_, i) => (i * 7) % rowCount);
      const gradients = new Float32Array(rowCount * width).fill(1);
      const plainBytes = gradients.byteLength;
      const w = await session.tensor(`w ${name}`, { shape: [rowCount, width], optimizer: "sum", link });
      const users = await session.embedding(`users ${name}`, { dim: width, optimizer: "sum", link });
      session.startRecord();
      for (let round = 1; round <= 3; round++) {
        const sum = new Float32Array(rowCount * width).fill(round);
        assert.deepEqual(await users.pushPull({ keys: rows, gradients }, rows), sum, `users ${name}`);
      }
      const tableLoads = [...session.takeLoads()].filter(([, { sentBytes, receivedBytes }]) => sentBytes + receivedBytes > 0);
      assert.deepEqual(await w.pushPull({ rows, gradients }, "all"), new Float32Array(rowCount * width).fill(1), `pushRowsPull ${name}`);
      assert.deepEqual(await w.pushPull({ rows, gradients }, rows), new Float32Array(rowCount * width).fill(2), `pushPullRows ${name}`);
      for (const loads of [tableLoads, [...session.takeLoads()]]) {
        const calls = loads === tableLoads ? 3 : 2;
        const sent = loads.reduce((bytes, [, load]) => bytes + load.sentBytes, 0);
        const received = loads.reduce((bytes, [, load]) => bytes + load.receivedBytes, 0);
        if ("push" in link) assert.ok(sent < calls * plainBytes * 0.7, `${name}: ${sent} bytes were sent`);
        if ("pull" in link) assert.ok(received < calls * plainBytes * 0.55, `${name}: ${received} bytes were received`);
      }
    }
  });
});

test("a push and pull of rows of a table gives what a push and then a pull give, over every codec, in one frame or many", async () => {
  const gradients = gradientOf(7, 6000 * 64);
  const pushed = BigUint64Array.from({ length: 6000 }, (_, i) => BigInt((i * 7919) % 6007) << 20n);
  const pulled = BigUint64Array.from({ length: 7000 }, (_, i) => BigInt((i * 31) % 6500) << 20n);
  await withServers(async (session) => {
    for (const { codec } of CODECS) {
      for (const link of [
        { push: codec, keys: "raw" },
        { pull: codec, compression: "zstd" },
        { push: codec, pull: codec, keyCache: true },
      ] as const) {
        const name = JSON.stringify(link);
        const both = await session.embedding(`both ${name}`, { dim: 64, optimizer: "sum", link });
        const apart = await session.embedding(`apart ${name}`, { dim: 64, optimizer: "sum", link });
        for (const [push, pull] of [
          [pushed, pulled],
          [pushed.subarray(0, 20), pulled.subarray(0, 30)],
          [pushed.subarray(0, 20), pulled.subarray(0, 30)], // by name, where lists are
        ] as const) {
          const rows = gradients.subarray(0, push.length * 64);
          await apart.push(push, rows);
          assert.deepEqual(await both.pushPull({ keys: push, gradients: rows }, pull), await apart.pull(pull), name);
        }
      }
    }
  });
});

test("a push and pull of many rows belongs to the clock at which it was called, though nobody waited for it", async () => {
  await withServers(async (session) => {
    const link = { push: "fp16", keyCache: true } as const;
    const table = await session.embedding("e", { dim: 64, optimizer: "sum", consistency: "bsp", link });
    const keys = BigUint64Array.from({ length: 6000 }, (_, i) => BigInt(i)); // several frames
    const ones = new Float32Array(6000 * 64).fill(1);
    for (let clock = 1; clock <= 3; clock++) {
      const pulled = table.pushPull({ keys, gradients: ones }, keys);
      session.clock();
      assert.deepEqual(await table.pull(keys), new Float32Array(6000 * 64).fill(clock));
      assert.equal((await pulled).length, ones.length);
    }
  });
});

test("a push and pull of a tensor, whole or of rows, gives what a push and then a pull give, over every codec", async () => {
  const [rowCount, width] = [5000, 64]; // three blocks
  const gradient = gradientOf(8, rowCount * width);
  const pushRows = Uint32Array.from({ length: 3000 }, (_, i) => (i * 7) % 2500); // rows of two blocks, some twice
  const pullRows = Uint32Array.from({ length: 2000 }, (_, i) => 1500 + ((i * 11) % 3500));
  const rows = gradient.subarray(0, pushRows.length * width);
  const links: readonly Link[] = [
    ...CODECS.flatMap(({ codec }): Link[] => [
      { push: codec, compression: "zstd" },
      { push: codec, pull: codec },
    ]),
    { push: { topK: 0.1 }, pull: "bf16" },
  ];
  await withServers(async (session) => {
    for (const link of links) {
      const name = JSON.stringify(link);
      const both = await session.tensor(`both ${name}`, { shape: [rowCount, width], optimizer: "sum", link });
      const apart = await session.tensor(`apart ${name}`, { shape: [rowCount, width], optimizer: "sum", link });
      await apart.push(gradient);
      assert.deepEqual(await both.pushPull(gradient, "all"), await apart.pull(), `pushPull ${name}`);
      await apart.pushRows(pushRows, rows);
      assert.deepEqual(await both.pushPull({ rows: pushRows, gradients: rows }, "all"), await apart.pull(), `pushRowsPull ${name}`);
      await apart.pushRows(pushRows, rows);
      assert.deepEqual(
        await both.pushPull({ rows: pushRows, gradients: rows }, pullRows),
        await apart.pullRows(pullRows),
        `pushPullRows ${name}`,
      );
      await Promise.all([both.flushResidual(), apart.flushResidual()]);
      assert.deepEqual(await both.pull(), await apart.pull(), `what is left ${name}`);
    }
  });
});

test("rows over a top-k link travel exactly, and leave what is kept of whole blocks alone", async () => {
  await withServers(async (session) => {
    const w = await session.tensor("w", { shape: [100, 8], optimizer: "sum", link: { push: { topK: 0.01 } } });
    const gradients = gradientOf(9, 3 * 8);
    await w.pushRows([5, 99, 7], gradients);
    assert.deepEqual(await w.pullRows([5, 99, 7]), gradients);
    await w.flushResidual();
    assert.deepEqual(await w.pullRows([5, 99, 7]), gradients);
  });
});

test("rows, and what a flush sends, travel exactly over a top-k link that compresses", async () => {
  await withServers(async (session) => {
    const [rowCount, width] = [1000, 128];
    const link = { push: { topK: 0.01 }, compression: "zstd" } as const;
    const tensor = await session.tensor("compressed", { shape: [rowCount, width], optimizer: "sum", link });
    const expected = new Float32Array(rowCount * width).fill(1);
    await tensor.push(expected);
    const rows = Array.from({ length: 40 }, (_, i) => i * 25);
    await tensor.pushRows(rows, new Float32Array(rows.length * width).fill(2));
    for (const row of rows) expected.subarray(row * width, (row + 1) * width).fill(3);
    await tensor.flushResidual();
    assert.deepEqual(await tensor.pull(), expected);
  });
});

test("top-k: what a push and pull has sent is not kept when its answer cannot be carried", async () => {
  await withServers(async (session) => {
    const w = await session.tensor("w", { shape: [4], optimizer: "sum", link: { push: { topK: 0.5 }, pull: "int8" } });
    await w.push(Float32Array.of(3, 2, 1, 0)); // keeps 1
    const beyond = Float32Array.of(1e38, 0, 1, 0); // int8 carries no 1e38
    await assert.rejects(w.pushPull(beyond, "all"), (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && !error.retryable);
    await w.push(Float32Array.of(-1e38, 0, 0, 0));
    await w.flushResidual();
    assertClose(await w.pull(), Float32Array.of(0, 2, 2, 0), 4, (_, rowMax) => rowMax / 100);
  });
});

test("of a push and pull of rows over a link that carries less, rows that do not exist send nothing", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const w = await cluster.session.tensor("w", { shape: [10, 4], optimizer: "sum", link: { push: "fp16", pull: "fp16" } });
  const outOfRange = (error: unknown): boolean => isWeighbridgeError(error, "OUT_OF_RANGE");
  await assert.rejects(w.pushPull({ rows: [1], gradients: new Float32Array(4).fill(1) }, [10]), outOfRange);
  await assert.rejects(w.pushPull({ rows: [10], gradients: new Float32Array(4).fill(1) }, "all"), outOfRange);
  assert.deepEqual(await w.pull(), new Float32Array(40));
});
