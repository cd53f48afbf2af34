// Goal: embeddings of f64, i32 and i64 rows, and of rows and updaters of users' own, as a user meets them in a whole
// cluster.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { ErrorCode } from "../base/errors.ts";
import { Random } from "../base/random.ts";
import type { RowSpans } from "../kernel/row-element.ts";
import { EmbeddedCluster } from "../node/embedded-cluster.ts";
import { psRowType, type RowsInHand, type SavedColumns } from "../store/row-types/ps-row-type.ts";
import type { OptimizerSpec } from "../store/updaters/optimizer-spec.ts";
import { type PsUpdaterOptions, psUpdater, type UpdaterColumn, type UpdaterStep } from "../store/updaters/ps-updater.ts";
import { throwsCode } from "../testing/throws-code.ts";
import type { DtypeOption, EmbeddingOptions } from "./parameter-options.ts";
import type { Session } from "./session.ts";

test("rows of f64, i32 and i64 are pushed and pulled in their own arrays, duplicates added, integers wrapping", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const { session } = cluster;
  const doubles = await session.embedding("doubles", { dim: 2, optimizer: "sum", dtype: "f64", init: { type: "constant", value: 0.1 } });
  await doubles.push([1, 2, 1], Float64Array.of(1e-12, 1, 2, 2, 1e-12, 1));
  assert.deepEqual(await doubles.pull([1, 2, 3]), Float64Array.of(0.1 + 2e-12, 2.1, 2.1, 2.1, 0.1, 0.1));
  const counts = await session.embedding("counts", { dim: 1, optimizer: "sum", dtype: "i32" });
  await counts.push([5, 6, 5], Int32Array.of(2 ** 31 - 1, -7, 1));
  assert.deepEqual(await counts.pull([5, 6]), Int32Array.of(-(2 ** 31), -7));
  const wide = await session.embedding("wide", { dim: 3, optimizer: "sum", dtype: "i64", init: { type: "constant", value: 2 } });
  await wide.push([2n ** 64n - 1n], BigInt64Array.of(2n ** 62n, -5n, 2n ** 40n));
  await wide.push([2n ** 64n - 1n], BigInt64Array.of(2n ** 62n, 1n, 2n ** 40n));
  assert.deepEqual(await wide.pull([2n ** 64n - 1n]), BigInt64Array.of(-(2n ** 63n) + 2n, -2n, 2n ** 41n + 2n));
});

/** Adds, and keeps within a limit; counts the updates of a row in a column. */
const clampedOptions = {
  name: "clamped",
  version: 1,
  deterministic: true,
  dtypes: ["f32", "f64"],
  settings: { limit: 1 },
  columns: () => ({ updates: { dim: 1, start: 100 } }),
  update: (
    rows: RowsInHand<"f32" | "f64">,
    gradients: RowSpans<"f32" | "f64">,
    { settings: { limit } }: UpdaterStep<{ limit: number }>,
  ) => {
    const { elements, starts } = rows;
    const updates = rows.columns.updates!;
    for (let i = 0; i < rows.count; i++) {
      elements[updates[i]!]! += 1;
      for (let j = 0; j < rows.width; j++) {
        const at = starts[i]! + j;
        elements[at] = Math.max(-limit, Math.min(limit, elements[at]! + gradients.elements[gradients.starts[i]! + j]!));
      }
    }
  },
} satisfies PsUpdaterOptions<{ limit: number }, "f32" | "f64">;
const clamped = psUpdater<"f32" | "f64", { limit: number }>(clampedOptions);

/** Throws for a gradient of 13, after it has changed rows; leaves what is not finite for 14. */
const unlucky = psUpdater({
  name: "unlucky",
  version: 1,
  deterministic: true,
  columns: (dim) => ({ seen: { dim } }),
  update: ({ elements, starts, count, width, columns }, gradients) => {
    for (let i = 0; i < count; i++) {
      for (let j = 0; j < width; j++) {
        const gradient = gradients.elements[gradients.starts[i]! + j]!;
        elements[starts[i]! + j]! += gradient;
        elements[columns.seen![i]! + j] = gradient;
        if (gradient === 13) throw new Error("thirteen");
        if (gradient === 14) elements[starts[i]! + j] = Number.POSITIVE_INFINITY;
      }
    }
  },
});

/** Products: rows begin with 1, updates multiply. A pull carries their logarithms to base 2. */
const products = psRowType({
  name: "products",
  version: 3,
  deterministic: true,
  dtype: "f64",
  make: (dim) => new Float64Array(dim).fill(1),
  add: multiply,
  encode: (rows, out) => eachElement(rows, out, (at, to) => (out.elements[to] = Math.log2(rows.elements[at]!))),
  decode: (rows, from) => eachElement(rows, from, (at, source) => (rows.elements[at] = 2 ** from.elements[source]!)),
});

function multiply(rows: RowSpans<"f64">, updates: RowSpans<"f64">): void {
  eachElement(rows, updates, (at, from) => (rows.elements[at] = rows.elements[at]! * updates.elements[from]!));
}

function eachElement(rows: RowSpans, others: RowSpans, use: (at: number, other: number) => void): void {
  for (let i = 0; i < rows.count; i++) for (let j = 0; j < rows.width; j++) use(rows.starts[i]! + j, others.starts[i]! + j);
}

const plugIns = [clamped, unlucky, products];

test("a table is opened by its name with an updater of a user's own, and with their row type where it has one", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, plugIns });
  const { session } = cluster;
  await session.embedding("clamped", { dim: 1, optimizer: clamped.with({ limit: 2 }) });
  const table = await session.embedding("clamped");
  await table.push([1, 1], Float32Array.of(1, 4));
  assert.deepEqual(await table.pull([1]), Float32Array.of(2));
  const rows = await session.embedding("products", { dim: 1, optimizer: "sum", dtype: products });
  const opened = await session.embedding("products", { dtype: products });
  await rows.push([1, 1], Float64Array.of(2, 3));
  assert.deepEqual(await opened.pull([1]), await rows.pull([1]));
  assert.deepEqual([opened.dtype, opened.dim], ["f64", 1]);
  const missing = throwsCode("UNSUPPORTED", /"products" has rows of products version 3 \(1 × f64\): open it with dtype: what psRowType/);
  await assert.rejects(session.embedding("products"), missing);
  for (const other of ["f64", { ...products, version: 4 }] as const) {
    const differs = throwsCode(
      "SPEC_MISMATCH",
      /rows of products version 3 \(1 × f64\), and was opened with dtype (f64|products version 4 )/,
    );
    await assert.rejects(session.embedding("products", { dtype: other }), differs);
  }
});

test("an updater of a user's own updates rows of tables and tensors, with its settings and columns", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, plugIns });
  const { session } = cluster;
  const keys = Array.from({ length: 3000 }, (_, i) => i);
  const table = await session.embedding("table", { dim: 2, optimizer: clamped.with({ limit: 2 }) });
  await table.push(keys, new Float32Array(6000).fill(1.5));
  await table.push([1, 1], Float32Array.of(1, 1, -1, -9));
  const expected = new Float32Array(6000).fill(1.5);
  expected.set([1.5, -2], 2);
  assert.deepEqual(await table.pull(keys), expected);
  const doubles = await session.embedding("doubles", { dim: 1, dtype: "f64", optimizer: { type: "custom", updater: "clamped" } });
  await doubles.push([1], Float64Array.of(0.1));
  assert.deepEqual(await doubles.pull([1]), Float64Array.of(0.1));
  const tensor = await session.tensor("tensor", { shape: [300, 1000], optimizer: clamped.with() });
  await tensor.push(new Float32Array(300_000).fill(0.75));
  await tensor.pushRows([299, 0], new Float32Array(2000).fill(1));
  const values = await tensor.pull();
  assert.deepEqual([values[0], values[1000], values[299_999]], [1, 0.75, 1]);
});

/** Adds the gradient to a column, and the column to the row. */
const running = {
  name: "running",
  version: 1,
  deterministic: true,
  dtypes: ["i64", "i32"],
  columns: () => ({ sum: { dim: 1, start: 3 } }),
  update: ({ elements, starts, columns, count }, gradients) => {
    const values = elements as BigInt64Array;
    for (let i = 0; i < count; i++) {
      const sum = columns.sum![i]!;
      values[sum]! += gradients.elements[gradients.starts[i]!] as bigint;
      values[starts[i]!]! += values[sum]!;
    }
  },
} as const satisfies PsUpdaterOptions<Record<never, never>, "i64" | "i32">;

test("columns of i64 rows begin with their start, also those that a later version adds to a checkpoint", async (t) => {
  const directory = mkdtempSync(join(tmpdir(), "weighbridge-starts-"));
  t.after(() => rmSync(directory, { recursive: true }));
  const options = { dim: 1, dtype: "i64" } as const;
  {
    const updater = psUpdater(running);
    await using cluster = await EmbeddedCluster.start({ servers: 2, plugIns: [updater], checkpointDir: directory });
    const table = await cluster.session.embedding("table", { ...options, optimizer: updater });
    await table.push([1, 2n ** 63n], BigInt64Array.of(2n, -4n));
    await table.push([1], BigInt64Array.of(1n));
    assert.deepEqual(await table.pull([1, 2n ** 63n]), BigInt64Array.of(11n, -1n));
    await cluster.session.checkpoint().saved;
  }
  const columns = (): Record<string, UpdaterColumn> => ({ ...running.columns(), none: { dim: 2 }, five: { dim: 1, start: 5 } });
  const added: bigint[] = [];
  const load = ({ count, columns: saved }: SavedColumns): void => {
    for (let i = 0; i < count; i++) added.push(...(saved.none as BigInt64Array).subarray(2 * i, 2 * i + 2), saved.five![i] as bigint);
  };
  const next = psUpdater({ ...running, version: 2, columns, load });
  await using cluster = await EmbeddedCluster.start({ servers: 1, plugIns: [next], restore: directory });
  const table = await cluster.session.embedding("table", { ...options, optimizer: next });
  await table.push([1, 2n ** 63n], BigInt64Array.of(1n, 1n));
  assert.deepEqual(await table.pull([1, 2n ** 63n]), BigInt64Array.of(18n, -1n));
  assert.deepEqual(added, [0n, 0n, 5n, 0n, 0n, 5n]);
});

test("a column of integers that would begin with a fraction is refused when the parameter is made", async () => {
  const half = psUpdater({ ...running, columns: () => ({ sum: { dim: 1, start: 0.5 } }) });
  await using cluster = await EmbeddedCluster.start({ plugIns: [half] });
  for (const rowType of ["i32", "i64"] as const)
    await assert.rejects(
      cluster.session.embedding("table", { dim: 1, dtype: rowType, optimizer: half }),
      throwsCode("BAD_ARGUMENT", /updater "running" of this program: a column "sum" of dim 1 that begins with 0\.5/),
    );
});

test("elements, the former name of a column's dim, is refused with the new one", async () => {
  const former = psUpdater({ ...running, columns: () => ({ sum: { elements: 1 } as never }) });
  await using cluster = await EmbeddedCluster.start({ plugIns: [former] });
  await assert.rejects(
    cluster.session.embedding("table", { dim: 1, dtype: "i64", optimizer: former }),
    throwsCode("BAD_ARGUMENT", /updater "running" of this program: elements of the column "sum" is now called dim$/),
  );
});

test("updates of a clock are joined, scaled and applied once by an updater of a user's own, in rows of every type", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2, plugIns });
  const bsp = { optimizer: "sum", consistency: "bsp" } as const;
  const outcomes = cluster.sessions.map(async (session) => {
    const made = await Promise.all([
      session.embedding("mean", {
        dim: 1,
        dtype: "f64",
        optimizer: clamped.with({ limit: 10 }),
        consistency: { bsp: true, reduce: "mean" },
      }),
      session.embedding("ints", { dim: 1, dtype: "i64", ...bsp }),
      session.embedding("products", { dim: 1, dtype: products, ...bsp }),
      session.embedding("least", { dim: 1, dtype: "i32", ...bsp, optimizer: { type: "min" } }),
    ]);
    const [mean, ints, product, least] = made;
    await mean.push([1, 2, 1], Float64Array.of(1, session.rank, 2));
    await ints.push([1, 2, 1], BigInt64Array.of(1n, BigInt(session.rank), 2n));
    await product.push([1, 2, 1], Float64Array.of(2, session.rank + 1, 4));
    await least.push([1, 2, 1], Int32Array.of(-1, session.rank, -2));
    session.clock();
    return [await mean.pull([1, 2]), await ints.pull([1, 2]), await product.pull([1, 2]), await least.pull([1, 2])];
  });
  for (const outcome of await Promise.all(outcomes))
    assert.deepEqual(outcome, [Float64Array.of(3, 0.5), BigInt64Array.of(6n, 1n), Float64Array.of(6, 1), Int32Array.of(-2, 0)]);
});

test("a throwing updater, or one whose outcome is not finite, leaves rows and columns as they were, and the error names server and module", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, plugIns });
  const { session } = cluster;
  const keys = Array.from({ length: 2500 }, (_, i) => i);
  const table = await session.embedding("table", { dim: 1, optimizer: unlucky.with() });
  await table.push([0, 2400], Float32Array.of(3, 4));
  const gradients = new Float32Array(2500).fill(1);
  gradients[2400] = 13;
  await assert.rejects(
    table.push(keys, gradients),
    throwsCode("HANDLER_FAILED", /server \d: updater "unlucky" of this program threw, and nothing .*: thirteen/),
  );
  gradients[2400] = 14;
  await assert.rejects(
    table.push(keys, gradients),
    throwsCode("NOT_FINITE", /server \d: updater "unlucky" of this program made .* not finite/),
  );
  const pulled = await table.pull(keys);
  const refused = pulled.filter((value, i) => value === (i === 0 ? 3 : i === 2400 ? 4 : 0));
  assert.ok(refused.length > 500, "a push is applied whole or not at all on each server, and each has many of the rows");
  assert.equal(pulled[2400], 4);
  const tensor = await session.tensor("tensor", { shape: [4], optimizer: unlucky.with() });
  await tensor.push(Float32Array.of(1, 2, 3, 4));
  const held = await tensor.pull();
  await assert.rejects(tensor.push(Float32Array.of(1, 1, 13, 1)), throwsCode("HANDLER_FAILED", /thirteen/));
  assert.deepEqual(await tensor.pull(), held);
  await tensor.push(Float32Array.of(1, 1, 1, 1));
  assert.deepEqual(await tensor.pull(), Float32Array.of(2, 3, 4, 5));
});

test("an updater that returns a promise has changed nothing, and its rejection escapes nowhere", async () => {
  const later = psUpdater({
    ...{ name: "later", version: 1, deterministic: true },
    update: ({ elements, starts }) => {
      elements[starts[0]!] = 7;
      return Promise.reject(new Error("too late"));
    },
  });
  await using cluster = await EmbeddedCluster.start({ plugIns: [later] });
  const table = await cluster.session.embedding("table", { dim: 1, optimizer: later.with() });
  await assert.rejects(
    table.push([1], Float32Array.of(1)),
    throwsCode("HANDLER_FAILED", /returned a promise, and an update is done when it returns/),
  );
  assert.deepEqual(await table.pull([1]), Float32Array.of(0));
});

type Pushed = { push(values: Float32Array): Promise<void>; pull(): Promise<Float32Array>; drop(): Promise<void> };

async function both<T, R>(list: readonly T[], run: (one: T) => Promise<R>): Promise<[R, R]> {
  return (await Promise.all(list.map(run))) as [R, R];
}

test("after a round that an updater throws in, every pull and push of the parameter and every checkpoint fails, also other workers', until it is dropped", async (t) => {
  const directory = mkdtempSync(join(tmpdir(), "weighbridge-"));
  t.after(() => rmSync(directory, { recursive: true }));
  await using cluster = await EmbeddedCluster.start({ workers: 2, plugIns, checkpointDir: directory });
  const [one, other] = cluster.sessions as [Session, Session];
  const failed = throwsCode("HANDLER_FAILED", /server 0: a round of "\w+" failed on server 0.*updater "unlucky" of this program.*thirteen/);
  const [healthy] = await both(cluster.sessions, (session) =>
    session.tensor("healthy", { shape: [1], optimizer: "sum", consistency: "bsp" }),
  );
  for (const kind of ["table", "tensor"] as const) {
    const options = { optimizer: unlucky.with(), consistency: "bsp" } as const;
    const open = async (session: Session): Promise<Pushed> => {
      if (kind === "tensor") return await session.tensor(kind, { shape: [1], ...options });
      const table = await session.embedding(kind, { dim: 1, ...options });
      return { push: (values) => table.push([1], values), pull: () => table.pull([1]), drop: () => table.drop() };
    };
    const [mine, theirs] = await both(cluster.sessions, open);
    await both([mine, theirs], (parameter) => parameter.push(Float32Array.of(2)));
    for (const session of cluster.sessions) session.clock();
    assert.deepEqual(await mine.pull(), Float32Array.of(4));
    await mine.push(Float32Array.of(13));
    one.clock();
    const parked = assert.rejects(mine.pull(), failed);
    other.clock();
    await parked;
    for (let again = 0; again < 2; again++) {
      await assert.rejects(mine.pull(), failed);
      await assert.rejects(theirs.pull(), failed);
      await assert.rejects(mine.push(Float32Array.of(1)), failed);
      await assert.rejects(theirs.push(Float32Array.of(1)), failed);
      await assert.rejects(other.checkpoint().saved, failed);
    }
    await healthy.push(Float32Array.of(1));
    await mine.drop();
    const [made] = await both(cluster.sessions, open);
    assert.deepEqual(await made.pull(), Float32Array.of(0));
    await one.checkpoint().saved;
  }
});

test("a checkpoint is restored after a round that an updater threw in, and other parameters are saved alone meanwhile", async (t) => {
  const directory = mkdtempSync(join(tmpdir(), "weighbridge-"));
  t.after(() => rmSync(directory, { recursive: true }));
  const start = async (): Promise<EmbeddedCluster> => await EmbeddedCluster.start({ plugIns, checkpointDir: directory });
  const options = { dim: 1, optimizer: unlucky.with(), consistency: "bsp" } as const;
  {
    await using cluster = await start();
    const { session } = cluster;
    const table = await session.embedding("table", options);
    await session.tensor("healthy", { shape: [1], optimizer: "sum" });
    await table.push([1], Float32Array.of(3));
    session.clock();
    await session.checkpoint().saved;
    await table.push([1], Float32Array.of(13));
    session.clock();
    await assert.rejects(table.pull([1]), throwsCode("HANDLER_FAILED", /a round of "table" failed/));
    await session.saveParameter("healthy", "alone");
    await assert.rejects(session.saveParameter("table", "other"), throwsCode("HANDLER_FAILED", /a round of "table" failed/));
  }
  await using cluster = await start();
  await cluster.session.restore();
  assert.deepEqual(await (await cluster.session.embedding("table", options)).pull([1]), Float32Array.of(3));
});

test("what is not finite in f64 rows is refused, skipped or counted as 0, as the policy says", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const { session } = cluster;
  const push = Float64Array.of(1, Number.NaN);
  const refusing = await session.embedding("refusing", { dim: 1, optimizer: "sum", dtype: "f64" });
  await assert.rejects(refusing.push([1, 2], push), throwsCode("NOT_FINITE", /element 1 of the gradient is NaN; nothing of it was pushed/));
  assert.deepEqual(await refusing.pull([1, 2]), Float64Array.of(0, 0));
  await refusing.push([1], Float64Array.of(1.7e308));
  await assert.rejects(refusing.push([1], Float64Array.of(1.7e308)), throwsCode("NOT_FINITE", /not finite/));
  assert.deepEqual(await refusing.pull([1]), Float64Array.of(1.7e308));
  const skipping = await session.embedding("skipping", { dim: 1, dtype: "f64", optimizer: { type: "sum", nonFinite: "skip" } });
  await skipping.push([1, 2], push);
  assert.deepEqual(await skipping.pull([1, 2]), Float64Array.of(0, 0));
  const zeroing = await session.embedding("zeroing", { dim: 1, dtype: "f64", optimizer: { type: "sum", nonFinite: "zero" } });
  await zeroing.push([1, 2], push);
  assert.deepEqual(await zeroing.pull([1, 2]), Float64Array.of(1, 0));
  assert.deepEqual([(await skipping.nonFinite()).skippedPushes, (await zeroing.nonFinite()).zeroedElements], [1, 1]);
});

test("what makes no sense together is refused with BAD_ARGUMENT before anything is sent", async () => {
  await using cluster = await EmbeddedCluster.start({ plugIns });
  const { session } = cluster;
  const refused = async (options: Partial<EmbeddingOptions<DtypeOption>>, message: RegExp): Promise<void> =>
    await assert.rejects(
      session.embedding("e", { dim: 2, dtype: "i32", optimizer: "sum", ...options }),
      throwsCode("BAD_ARGUMENT", message),
    );
  await refused(
    { optimizer: { type: "adam" } },
    /optimizer adam is not for rows of i32; there are sum, assign, min, max, or an updater of your own/,
  );
  await refused(
    { dtype: "f64", optimizer: { type: "lazyAdam" } },
    /optimizer lazyAdam is not for rows of f64; there are .*sgd, momentum, .*adam, adamW, ftrl/,
  );
  await refused({ dtype: products, optimizer: { type: "max" } }, /optimizer max is not for rows of products; there are sum, assign/);
  await refused({ link: { push: "fp16" } }, /a link encodes f32, and these are rows of i32/);
  await refused({ versions: true }, /versions are for caches, which hold rows of f32/);
  await refused({ init: { type: "uniform" } }, /rows of i32 begin with a constant that is a whole number/);
  await refused(
    { init: { type: "constant", value: 0.5 } },
    /rows of i32 begin with a constant that is a whole number, not with constant 0.5/,
  );
  await refused({ consistency: { bsp: true, reduce: "mean" } }, /reduce "mean" is for floats, and these are rows of i32/);
  await refused({ dtype: "f64", optimizer: { type: "sum", clipNorm: 1 } }, /clipNorm is for f32/);
  await refused(
    { dtype: "f46" as "f64" },
    /dtype must be one of f32, f64, i32, i64, or what psRowType\(\) made, got "f46"; did you mean f64\?/,
  );
  await refused({ dim: 100_000, dtype: "f64" }, /a row of 100000 × f64 is longer than 524288 bytes/);
  await refused({ optimizer: { type: "custom", updater: "clamped" }, dtype: "f32", versions: true }, /versions are for caches/);
  await refused({ optimizer: { type: "custom", updater: "not a name" } }, /optimizer\.updater: expected the name of an updater/);
  await refused(
    { optimizer: { type: "custom", updater: "x", settings: { a: Number.NaN } } },
    /optimizer\.settings\.a: expected a finite number/,
  );
  assert.deepEqual(await session.parameters(), []);
  const table = await session.embedding("table", { dim: 2, optimizer: "sum", dtype: "i32" });
  const wrong = (call: Promise<unknown>, message: RegExp, code: ErrorCode = "BAD_ARGUMENT"): Promise<void> =>
    assert.rejects(call, throwsCode(code, message));
  await wrong(table.push([1], Float32Array.of(1, 1) as never), /table: gradients must be a Int32Array/);
  await wrong(table.push([1], [1, 1] as never), /table: gradients must be a Int32Array/);
  await wrong(
    table.pull([1], { into: new Int32Array(3) }),
    /the array to pull into must have 2 elements, 2 for each of 1 keys, got 3/,
    "VALUE_LENGTH",
  );
  assert.throws(
    () => table.cached({ rows: 1, pullBound: 0, pushBound: 0 }),
    throwsCode("BAD_ARGUMENT", /has rows of i32: rows that are cached are of f32/),
  );
  await wrong(table.configure({ consistency: { bsp: true, reduce: "mean" } }), /reduce "mean" is for floats/);
});

test("what a row type of a user's own throws at a worker is HANDLER_FAILED, which names the row type and its module", async () => {
  const common = { version: 1, deterministic: true, dtype: "i32" } as const;
  const fail = (why: string): never => {
    throw new Error(why);
  };
  const unsized = psRowType({ ...common, name: "unsized", elements: () => fail("no size today"), add: () => {} });
  const unsummed = psRowType({ ...common, name: "unsummed", add: () => fail("no sums today") });
  await using cluster = await EmbeddedCluster.start({ servers: 2, plugIns: [unsized, unsummed] });
  const { session } = cluster;
  await assert.rejects(
    session.embedding("e", { dim: 2, optimizer: "sum", dtype: unsized }),
    throwsCode("HANDLER_FAILED", /embedding e: row type "unsized" threw in elements: no size today, at .*typed-embedding\.test\.ts:\d+/),
  );
  assert.deepEqual(await session.parameters(), []);
  const table = await session.embedding("e", { dim: 2, optimizer: "sum", dtype: unsummed });
  await assert.rejects(
    table.push([1, 1], Int32Array.of(1, 2, 3, 4)),
    throwsCode("HANDLER_FAILED", /row type "unsummed" cannot add updates: no sums today, at .*typed-embedding\.test\.ts:\d+/),
  );
  assert.deepEqual(await table.pull([1]), new Int32Array(2));
});

test("a plug-in that servers do not have, or have otherwise, is told when the parameter is made, and its name stays free", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, plugIns });
  const { session } = cluster;
  const custom = async (optimizer: OptimizerSpec, code: ErrorCode, message: RegExp): Promise<void> =>
    await assert.rejects(session.embedding("e", { dim: 2, optimizer }), throwsCode(code, message));
  await custom(
    { type: "custom", updater: "clampd" },
    "UNKNOWN_PLUG_IN",
    /server \d: this server has no updater "clampd"; did you mean clamped\?; it has "clamped" of this program, .*--functions/,
  );
  await custom(
    { type: "custom", updater: "clamped", version: 2 },
    "UNKNOWN_PLUG_IN",
    /server \d: this server has version 1 of the updater "clamped", of this program, and no version 2/,
  );
  await custom(
    { type: "custom", updater: "clamped", settings: { limits: 1 } },
    "BAD_ARGUMENT",
    /has no setting "limits"; there are limit; did you mean limit\?/,
  );
  await custom(
    { type: "custom", updater: "clamped", settings: { learningRate: 1 } },
    "BAD_ARGUMENT",
    /has no setting "learningRate"; .*; learningRate stands beside them: optimizer: \{ \.\.\.updater\.with/,
  );
  await custom({ type: "custom", updater: "clamped", settings: { limit: "1" } }, "BAD_ARGUMENT", /limit is a number, not "1"/);
  const stranger = psRowType({ name: "stranger", version: 1, deterministic: true, dtype: "i32", add: () => {} });
  await assert.rejects(
    session.embedding("e", { dim: 2, optimizer: "sum", dtype: stranger }),
    throwsCode("UNKNOWN_PLUG_IN", /has no row type "stranger";.* it has "products"/),
  );
  await assert.rejects(
    session.embedding("e", { dim: 2, dtype: "i32", optimizer: clamped.with() }),
    throwsCode("BAD_ARGUMENT", /is for rows of f32, f64, not of i32/),
  );
  const other = { ...products, elements: (dim: number) => dim + 1 };
  await assert.rejects(
    session.embedding("e", { dim: 2, optimizer: "sum", dtype: other }),
    throwsCode("BAD_ARGUMENT", /a row of "products" with dim 2 is 2 × f64 in this program, and 3 × f64/),
  );
  const table = await session.embedding("e", { dim: 2, optimizer: clamped.with() });
  await table.push([1], Float32Array.of(1, 1));
});

test("rows and updaters of every kind are saved by two servers and restored by three, bit for bit, columns included", async () => {
  const directory = mkdtempSync(join(tmpdir(), "weighbridge-"));
  const keys = Array.from({ length: 5000 }, (_, i) => 7 * i);
  const open = async (session: Session) =>
    await Promise.all([
      session.embedding("table", { dim: 3, optimizer: clamped.with({ limit: 5 }) }),
      session.embedding("doubles", {
        dim: 2,
        dtype: "f64",
        optimizer: { type: "momentum", learningRate: 0.1 },
        init: { type: "normal", seed: 3 },
      }),
      session.embedding("wide", { dim: 1, optimizer: "sum", dtype: "i64" }),
      session.embedding("products", { dim: 2, optimizer: "sum", dtype: products }),
      session.tensor("tensor", { shape: [600, 500], optimizer: clamped.with({ limit: 3 }), init: { type: "uniform", seed: 5 } }),
    ]);
  const push = async ([table, doubles, wide, product, tensor]: Awaited<ReturnType<typeof open>>, seed: number): Promise<void> => {
    const random = new Random(seed);
    const draw = (length: number): number[] => Array.from({ length }, () => random.fraction() * 2 - 1);
    await table.push(keys, Float32Array.from(draw(15_000)));
    await doubles.push(keys, Float64Array.from(draw(10_000)));
    await wide.push(
      keys,
      BigInt64Array.from(draw(5000), (value) => BigInt(Math.round(value * 2 ** 52)) * 2048n),
    );
    await product.push(
      keys,
      Float64Array.from(draw(10_000), (value) => 1 + value / 2),
    );
    await tensor.push(Float32Array.from(draw(300_000)));
  };
  const pull = async ([table, doubles, wide, product, tensor]: Awaited<ReturnType<typeof open>>) => [
    await table.pull(keys),
    await doubles.pull(keys),
    await wide.pull(keys),
    await product.pull(keys),
    await tensor.pull(),
  ];
  let expected: unknown;
  {
    await using cluster = await EmbeddedCluster.start({ servers: 2, plugIns, checkpointDir: directory });
    const parameters = await open(cluster.session);
    await push(parameters, 1);
    await cluster.session.checkpoint().saved;
    await push(parameters, 2);
    expected = await pull(parameters);
  }
  {
    await using cluster = await EmbeddedCluster.start({ servers: 3, plugIns, restore: directory });
    const parameters = await open(cluster.session);
    await push(parameters, 2);
    assert.deepEqual(await pull(parameters), expected);
  }
  await assert.rejects(
    EmbeddedCluster.start({ servers: 3, plugIns: [unlucky, products], restore: directory }),
    throwsCode("UNKNOWN_PLUG_IN", /this server has no updater "clamped"/),
  );
  const newer = psUpdater({ ...clampedOptions, version: 2 });
  await assert.rejects(
    EmbeddedCluster.start({ servers: 3, plugIns: [newer, products], restore: directory }),
    throwsCode("CHECKPOINT_FOREIGN", /"table" of version 1, which updater "clamped" of this program, version 2, cannot load/),
  );
  const loading = psUpdater({
    ...clampedOptions,
    version: 2,
    columns: () => ({ updates: { dim: 1, start: 100 }, halves: { dim: 1, start: 7 } }),
    load: ({ count, columns }, version) => {
      assert.equal(version, 1);
      for (let i = 0; i < count; i++) assert.deepEqual([columns.updates![i], columns.halves![i]], [101, 7]);
      columns.values!.fill(4);
    },
  });
  await using cluster = await EmbeddedCluster.start({ servers: 1, plugIns: [loading, products], restore: directory });
  await assert.rejects(
    cluster.session.embedding("table", { dim: 3, optimizer: clamped.with({ limit: 5 }) }),
    throwsCode("SPEC_MISMATCH", /version/),
  );
  const table = await cluster.session.embedding("table", { dim: 3, optimizer: loading.with({ limit: 5 }) });
  assert.deepEqual(await table.pull([7]), Float32Array.of(4, 4, 4));
  rmSync(directory, { recursive: true });
});
