// Goal: every verb of a tensor, a table and a cache has one shape, options last (0089); what is left of the older
// shapes is refused by name, and sends nothing.

import assert from "node:assert/strict";
import { test } from "node:test";
import { EmbeddedCluster } from "../node/embedded-cluster.ts";
import { throwsCode } from "../testing/throws-code.ts";

const SUM = { optimizer: { type: "sum" } } as const;
const WAIT = { timeoutMs: 10_000 } as const;
/** As a program without types calls it. */
const untyped = (of: object): Record<string, (...given: readonly unknown[]) => Promise<unknown>> => of as never;

test("a push and pull takes all of a tensor or some rows on either side, in any combination", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  for (const link of [undefined, { push: "packed" }] as const) {
    const options = { shape: [3, 2], ...SUM, ...(link === undefined ? {} : { link }) };
    const w = await cluster.session.tensor(`w ${link?.push}`, options);
    const whole = Float32Array.of(1, 2, 3, 4, 5, 6);
    assert.deepEqual(await w.pushPull(whole, "all"), whole);
    assert.deepEqual(await w.pushPull(whole, [2, 0]), Float32Array.of(10, 12, 2, 4));
    assert.deepEqual(await w.pushPull(whole, []), new Float32Array(0));
    const rows = { rows: [1], gradients: Float32Array.of(1, 2) };
    assert.deepEqual(await w.pushPull(rows, "all"), Float32Array.of(3, 6, 10, 14, 15, 18));
    assert.deepEqual(await w.pushPull(rows, [1, 0]), Float32Array.of(11, 16, 3, 6));
    assert.deepEqual(await w.pushPull({ rows: [], gradients: new Float32Array(0) }, [0]), Float32Array.of(3, 6));
    assert.deepEqual(await w.pull(), Float32Array.of(3, 6, 11, 16, 15, 18));
  }
});

test("values land in the array that the options name, which the call returns, also beside other options", async () => {
  await using cluster = await EmbeddedCluster.start();
  const w = await cluster.session.tensor("w", { shape: [2, 1], ...SUM });
  const users = await cluster.session.embedding("users", { dim: 1, versions: true, ...SUM });
  await using cache = users.cached({ rows: 4 });
  const [one, two] = [new Float32Array(1), new Float32Array(2)];
  const ones = Float32Array.of(1, 1);
  for (const wait of [{}, WAIT]) {
    const both = { into: two, ...wait };
    const single = { into: one, ...wait };
    await w.push(ones);
    await users.push([1, 2], ones);
    assert.equal(await w.pull(both), two);
    assert.equal(await w.pullRows([1, 0], both), two);
    assert.equal(await users.pull([1, 2], both), two);
    assert.equal(await cache.pull([1, 2], both), two);
    assert.equal(await w.pushPull(ones, "all", both), two);
    assert.equal(await w.pushPull(ones, [1], single), one);
    assert.equal(await users.pushPull({ keys: [1], gradients: one }, [2], single), one);
    assert.equal(await cache.pushPull({ keys: [1], gradients: one }, [2], single), one);
  }
});

test("an array where options belong is refused with the shape that the call has now", async () => {
  await using cluster = await EmbeddedCluster.start();
  const w = await cluster.session.tensor("w", { shape: [2], ...SUM });
  const users = await cluster.session.embedding("users", { dim: 1, versions: true, ...SUM });
  await using cache = users.cached({ rows: 4 });
  const [one, two] = [Float32Array.of(1), Float32Array.of(1, 1)];
  const ofTensor = throwsCode("BAD_ARGUMENT", /w: into is an option now: pull\(\{ into \}\), /);
  const ofTable = throwsCode("BAD_ARGUMENT", /users: into is an option now: pull\(keys, \{ into \}\), /);
  await assert.rejects(untyped(w).pull!(two), ofTensor);
  await assert.rejects(untyped(w).pullRows!([0], one), ofTensor);
  await assert.rejects(untyped(w).pushPull!(two, "all", two), ofTensor);
  await assert.rejects(untyped(users).pull!([1], one), ofTable);
  await assert.rejects(untyped(users).pushPull!({ keys: [1], gradients: one }, [1], one), ofTable);
  await assert.rejects(untyped(cache).pull!([1], one), ofTable);
  const pulled = throwsCode(
    "BAD_ARGUMENT",
    /what pushPull pulls must be "all" or a list of rows, got .*pushPull\(gradient, "all", \{ into \}\)/,
  );
  for (const given of [[two], [two, undefined, WAIT], [two, two], [two, null], [two, "some"]])
    await assert.rejects(untyped(w).pushPull!(...given), pulled);
  await assert.rejects(untyped(cache).pushPull!([1], one, [1], one), throwsCode("BAD_ARGUMENT"));
  assert.deepEqual(await w.pull(), new Float32Array(2), "nothing was pushed");
});

test("options behind what is the last argument now are refused, not left out", async () => {
  await using cluster = await EmbeddedCluster.start();
  const w = await cluster.session.tensor("w", { shape: [2], ...SUM });
  const users = await cluster.session.embedding("users", { dim: 1, versions: true, ...SUM });
  await using cache = users.cached({ rows: 4 });
  const one = Float32Array.of(1);
  const refused = throwsCode("BAD_ARGUMENT", /the options of a call must be one object, its last argument; got .* behind it/);
  await assert.rejects(untyped(w).pull!(undefined, WAIT), refused);
  await assert.rejects(untyped(w).pullRows!([0], undefined, WAIT), refused);
  await assert.rejects(untyped(w).pushPull!({ rows: [0], gradients: one }, [0], undefined, WAIT), refused);
  await assert.rejects(untyped(users).pull!([1], undefined, WAIT), refused);
  await assert.rejects(untyped(users).pushPull!({ keys: [1], gradients: one }, [1], undefined, WAIT), refused);
  await assert.rejects(untyped(cache).pull!([1], undefined, WAIT), refused);
  assert.deepEqual(await users.pull([1]), new Float32Array(1), "nothing was pushed");
});

test("a former name of a verb or a field is refused with the one to write", async () => {
  await using cluster = await EmbeddedCluster.start();
  const w = await cluster.session.tensor("w", { shape: [2], ...SUM });
  const users = await cluster.session.embedding("users", { dim: 1, versions: true, ...SUM });
  await using cache = users.cached({ rows: 4 });
  const units = cluster.session.units("u", { epoch: 0, batchCount: 1, partCount: 1, assignment: "free" });
  const checkpoint = cluster.session.checkpoint();
  await assert.rejects(checkpoint.saved, throwsCode("UNSUPPORTED"));
  const former: readonly (readonly [object, string, RegExp])[] = [
    [w, "pushRowsPull", /write pushPull\(\{ rows, gradients \}, "all", options\)/],
    [w, "pushPullRows", /write pushPull\(\{ rows, gradients \}, rows, options\)/],
    [w, "clear", /write drop\(\)/],
    [users, "clear", /write drop\(\)/],
    [users, "element", /write dtype/],
    [users, "elements", /write dim/],
    [cache, "lookup", /write pull\(keys, options\)/],
    [cache, "update", /write push\(keys, gradients, options\)/],
    [cluster.session, "leaving", /write session\.isLeaving, and session\.addEventListener\("leaving", listener\)/],
    [cluster.session, "onTakenOut", /write session\.addEventListener\("rejoined", listener\)/],
    [cluster.session, "unitFeed", /write for await \(const unit of session\.units\(name, options\)\)/],
    [units, "next", /write for await \(const unit of session\.units\(name, options\)\)/],
    [units, "nextClock", /which ends the clocks/],
    [units, "done", /write unit\.done\(\) in for await/],
    [checkpoint, "path", /write \(await session\.checkpoint\(\)\.saved\)\.path/],
    [checkpoint, "step", /saved\)\.step/],
    [checkpoint, "clock", /saved\)\.clock/],
    [checkpoint, "warning", /saved\)\.warning/],
  ];
  for (const [of, name, message] of former) assert.throws(() => untyped(of)[name], throwsCode("BAD_ARGUMENT", message), name);
  for await (const unit of units) {
    assert.throws(() => untyped(unit).unit, throwsCode("BAD_ARGUMENT", /write index/));
    unit.done();
  }
});
