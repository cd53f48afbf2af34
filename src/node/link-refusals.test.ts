// Goal: links that cannot be, values that a link cannot carry, and bytes that no encoder makes are errors that name
// what is wrong, and change nothing.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { TensorOptions } from "../api/parameter-options.ts";
import type { Session } from "../api/session.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import { Random } from "../base/random.ts";
import { rowsPull, rowsPush } from "../contracts/rows.ts";
import { tensorPull, tensorPush, tensorPushPull } from "../contracts/tensors.ts";
import type { LinkEncoding } from "../wire/codecs/link-encoding.ts";
import { EmbeddedCluster } from "./embedded-cluster.ts";

type Link = Partial<LinkEncoding>;

const ALL_ROWS = new Uint32Array(0);

/** Runs with one server and with two. */
async function withServers(run: (session: Session, servers: number) => Promise<void>): Promise<void> {
  for (const servers of [1, 2]) {
    await using cluster = await EmbeddedCluster.start({ servers });
    await run(cluster.session, servers);
  }
}

test("top-k with an optimizer that takes values is refused: those that do not travel would be assigned, or be the least, as 0", async () => {
  await using cluster = await EmbeddedCluster.start();
  for (const type of ["assign", "min", "max"] as const) {
    await assert.rejects(
      cluster.session.tensor(type, { shape: [4], optimizer: { type }, link: { push: { topK: 0.5 } } }),
      (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && error.message.includes(`top-k with ${type}`),
    );
  }
});

test("two workers that differ in the link: the second is told in what", async () => {
  await using cluster = await EmbeddedCluster.start({ workers: 2 });
  const [one, two] = cluster.sessions;
  assert.ok(one !== undefined && two !== undefined);
  await one.tensor("w", { shape: [4], optimizer: "sum", link: { push: "fp16" } });
  await assert.rejects(
    two.tensor("w", { shape: [4], optimizer: "sum", link: { push: "bf16" } }),
    (error) => isWeighbridgeError(error, "SPEC_MISMATCH") && /link.push is "fp16" and "bf16"/.test(error.message),
  );
  await assert.rejects(
    two.tensor("w", { shape: [4], optimizer: "sum" }),
    (error) => isWeighbridgeError(error, "SPEC_MISMATCH") && /link is/.test(error.message),
  );
  await two.tensor("w", { shape: [4], optimizer: "sum", link: { push: "fp16", pull: "f32" } });
});

test("links that cannot be are refused when the parameter is made", async () => {
  await using cluster = await EmbeddedCluster.start();
  const { session } = cluster;
  const refused = (link: unknown): Promise<void> =>
    assert.rejects(
      session.embedding("e", { dim: 4, optimizer: "sum", link: link as Link }),
      (error) => isWeighbridgeError(error, "BAD_ARGUMENT"),
      JSON.stringify(link),
    );
  for (const link of [
    { push: "int4" },
    { push: { topK: 0.1 } },
    { pull: { topK: 0.1 } },
    { keys: "sorted" },
    { compression: "gzip" },
    { speed: 9 },
  ])
    await refused(link);
  await assert.rejects(session.tensor("w", { shape: [4], optimizer: "sum", link: { push: { topK: 0 } } }), (error) =>
    isWeighbridgeError(error, "BAD_ARGUMENT"),
  );
});

test("values that a link cannot carry are refused before anything is sent", async () => {
  await withServers(async (session) => {
    const w = await session.tensor("w", { shape: [5000, 64], optimizer: "sum", link: { push: "int8" } });
    const wrong = new Float32Array(w.size).fill(1);
    wrong[w.size - 1] = 2 ** 127; // a number, but more than int8 has a scale for
    await assert.rejects(w.push(wrong), (error) => isWeighbridgeError(error, "BAD_ARGUMENT"));
    assert.deepEqual(await w.pull(), new Float32Array(w.size));
    const optimizer = { type: "sum", nonFinite: "zero" } as const; // leaves it to the servers, which never see it
    const table = await session.embedding("e", { dim: 16, optimizer, link: { push: "int8" } });
    const keys = BigUint64Array.from({ length: 20_000 }, (_, i) => BigInt(i));
    const rows = new Float32Array(keys.length * 16).fill(1);
    rows[rows.length - 1] = Number.NaN;
    await assert.rejects(table.push(keys, rows), (error) => isWeighbridgeError(error, "BAD_ARGUMENT"));
    assert.deepEqual(await table.pull(keys), new Float32Array(keys.length * 16));
    await assert.rejects(table.push(keys, new Float32Array(1)), (error) => isWeighbridgeError(error, "VALUE_LENGTH"));
    const half = await session.tensor("half", { shape: [3], optimizer: "sum", link: { push: "fp16" } });
    await assert.rejects(half.push(Float32Array.of(1, Number.NaN, 1)), (error) => isWeighbridgeError(error, "NOT_FINITE"));
  });
});

test("bytes that no encoder makes are refused with a typed error, and change nothing", async () => {
  await using cluster = await EmbeddedCluster.start();
  const { session } = cluster;
  const random = new Random(3);
  const at = { server: 0 };
  const junk = (byteCount: number): Uint8Array =>
    Uint8Array.from({ length: byteCount }, () => (random.chance(0.5) ? 0 : random.below(256)));
  const codes = ["BAD_REQUEST", "KEYS_NOT_ASCENDING", "UNKNOWN_KEY_LIST", "NOT_FINITE", "OUT_OF_RANGE", "UNSUPPORTED"];
  const refused = (call: Promise<unknown>): Promise<void> =>
    assert.rejects(call, (error) => isWeighbridgeError(error) && codes.includes(error.code));
  let parameter = 0; // parameters are numbered as they are made
  for (const [name, push] of [
    ["int8", "int8"],
    ["top-k", { topK: 0.5 }],
    ["f32", "f32"],
  ] as const) {
    parameter++;
    const both = { parameter, clock: 0, pushNumber: 1, scale: 1, pushRows: ALL_ROWS, pullRows: ALL_ROWS };
    const w = await session.tensor(name, { shape: [64, 16], optimizer: "sum", link: { push, compression: "zstd" } });
    for (let i = 0; i < 100; i++) {
      await refused(
        session.call(tensorPush, at, {
          parameter,
          block: 0,
          clock: 0,
          pushNumber: 1,
          scale: 1,
          rows: ALL_ROWS,
          gradients: junk(random.below(1500)),
        }),
      );
    }
    await refused(session.call(tensorPushPull, at, { ...both, block: 1, gradients: junk(9) }));
    await refused(session.call(tensorPull, at, { parameter, block: 0, clock: 0, rows: Uint32Array.of(64) }));
    await refused(session.call(tensorPushPull, at, { ...both, block: 0, gradients: junk(9) }));
    assert.deepEqual(await w.pull(), new Float32Array(w.size));
  }
  const table = await session.embedding("e", { dim: 4, optimizer: "sum", link: { push: "fp16" } });
  parameter++;
  for (let i = 0; i < 200; i++) {
    const keys = junk(random.below(80));
    keys[0] = random.below(3);
    await refused(session.call(rowsPush, at, { parameter, clock: 0, pushNumber: 1, scale: 1, keys, gradients: junk(8 * random.below(5)) }));
    await refused(session.call(rowsPull, at, { parameter, clock: 0, keys }));
  }
  assert.deepEqual(await table.pull([0, 1, 2]), new Float32Array(12));
});

test("bytes that are no values and no keys are an error to parameters whose values and keys travel as they are", async () => {
  await using cluster = await EmbeddedCluster.start();
  const { session } = cluster;
  await session.tensor("plain", { shape: [4], optimizer: "sum" });
  await session.embedding("table", { dim: 1, optimizer: "sum" });
  const at = { server: 0 };
  const push = { clock: 0, pushNumber: 1, scale: 1 };
  const isBad = (error: unknown): boolean => isWeighbridgeError(error, "BAD_REQUEST");
  const gradients = new Uint8Array(15);
  await assert.rejects(session.call(tensorPush, at, { ...push, parameter: 1, block: 0, rows: ALL_ROWS, gradients }), isBad);
  await assert.rejects(session.call(rowsPush, at, { ...push, parameter: 2, keys: BigUint64Array.of(1n), gradients }), isBad);
  await assert.rejects(session.call(rowsPull, at, { clock: 0, parameter: 2, keys: gradients }), isBad);
});

test("a caller that waits no longer does not disturb what it sent", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2 });
  const [one, two] = cluster.sessions;
  assert.ok(one !== undefined && two !== undefined);
  const options: TensorOptions = { shape: [3000, 64], optimizer: "sum", consistency: { ssp: 0 }, link: { push: "bf16", pull: "fp16" } };
  const w = await one.tensor("w", options);
  await two.tensor("w", options);
  one.clock();
  const gradient = new Float32Array(w.size).fill(2);
  const late = w.pushPull(gradient, "all", { timeoutMs: 30 }); // reads wait for the other worker
  await assert.rejects(late, (error) => isWeighbridgeError(error, "DEADLINE"));
  gradient.fill(99);
  two.clock();
  assert.deepEqual(await w.pull(), new Float32Array(w.size).fill(2));
});
