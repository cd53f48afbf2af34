// bad-arguments — Goal: what TypeScript would have refused, and JavaScript lets through, is a typed error before
// anything is sent: never a default in its place, never an answer to another question.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { after, before, suite, test } from "node:test";
import { type ErrorCode, isWeighbridgeError } from "../base/errors.ts";
import { psFunction } from "../contracts/ps-function.ts";
import { TensorWorker } from "../faces/tensors/tensor-worker.ts";
import type { Embedding } from "../worker/embedding.ts";
import type { Tensor } from "../worker/tensor.ts";
import { connect } from "./connect.ts";
import { EmbeddedCluster } from "./embedded-cluster.ts";

/** What somebody without types may give. */
const UNITS = { epoch: 0, batchCount: 1, partCount: 1, assignment: "even" } as const;
const anything = (value: unknown): never => value as never;
const one = Float32Array.of(1, 1);
const sizeOf = psFunction({
  name: "sizeOf",
  request: { list: "f32[]" },
  response: { count: "u32" },
  handler: (_, { list }) => ({ count: list.length }),
});

async function refuses(call: () => unknown, text: RegExp, code: ErrorCode = "BAD_ARGUMENT"): Promise<void> {
  await assert.rejects(
    async () => await call(),
    (error) => {
      assert.ok(isWeighbridgeError(error, code), `${text}: ${String(error)}`);
      assert.match(error.message, text);
      return true;
    },
  );
}

test("a cluster inside the process that cannot start says why", async () => {
  for (const servers of [0, -1, 1.5, NaN, 5n])
    await refuses(() => EmbeddedCluster.start({ servers: anything(servers) }), /whole number of servers from 1 up/);
  await refuses(() => EmbeddedCluster.start({ functions: anything([undefined]) }), /what psFunction\(\) makes/);
  await refuses(() => EmbeddedCluster.start({ arenaBytesMax: 5 }), /an arena has/);
  for (const path of [5, null, "", {}]) {
    await refuses(() => EmbeddedCluster.start({ checkpointDir: anything(path) }), /checkpointDir is a path/);
    await refuses(() => EmbeddedCluster.start({ restore: anything(path) }), /restore is a path/);
  }
});

test("a cluster of which one node cannot start is closed: nothing waits for it and keeps the process alive", () => {
  const script = `
    import { EmbeddedCluster, psFunction } from "weighbridge/embedded";
    const twice = psFunction({ name: "twice", request: {}, response: {}, handler: () => ({}) });
    await EmbeddedCluster.start({ servers: 2, functions: [twice, twice] }).catch((error) => console.log(error.message));
  `;
  const limitMs = 30_000; // half of what a node waits for others
  const { status, stdout } = spawnSync(process.execPath, ["--input-type=module", "-e", script], { timeout: limitMs, encoding: "utf8" });
  assert.equal(stdout, "the function twice is there already\n");
  assert.equal(status, 0);
});

test("an option that a call of a tensor, a table or a cache does not have is refused with the nearest that it has, and nothing is sent", async () => {
  await using cluster = await EmbeddedCluster.start();
  const { session } = cluster;
  const tensor = await session.tensor("w", { shape: [2], optimizer: "sum" });
  const table = await session.embedding("e", { dim: 2, optimizer: "sum", versions: true });
  const cache = table.cached({ rows: 4 });
  const misspelt = anything({ timeoutM: 1000 });
  const calls: (() => unknown)[] = [
    () => tensor.push(one, misspelt),
    () => tensor.pull(misspelt),
    () => tensor.pushPull(one, "all", misspelt),
    () => tensor.start(one, misspelt),
    () => tensor.configure(anything({ learningRate: 1, timeoutM: 1000 })),
    () => tensor.nonFinite(misspelt),
    () => table.push([1], one, misspelt),
    () => table.pull([1], misspelt),
    () => table.pushPull({ keys: [1], gradients: one }, [1], misspelt),
    () => table.drop(misspelt),
    () => cache.pull([1], misspelt),
    () => cache.push([1], one, misspelt),
  ];
  for (const call of calls) await refuses(call, /the (options of a call|settings) of [we] have no "timeoutM"; .* did you mean timeoutMs\?/);
  await refuses(() => tensor.push(one, anything({ clocksAhead: 1 })), /have no "clocksAhead"/);
  await tensor.push(one, { priority: 1, timeoutMs: 60_000, signal: new AbortController().signal });
  assert.deepEqual(await tensor.pull({ clocksAhead: 0 }), Float32Array.of(1, 1));
  assert.deepEqual(await table.pull([1]), new Float32Array(2));
});

suite("bad arguments", () => {
  let cluster: EmbeddedCluster;
  let tensor: Tensor;
  let table: Embedding;
  before(async () => {
    cluster = await EmbeddedCluster.start({ servers: 2, functions: [sizeOf] });
    tensor = await cluster.session.tensor("tensor", { shape: [4, 2], optimizer: "sum" });
    table = await cluster.session.embedding("table", { dim: 2, optimizer: "sum", versions: true });
  });
  after(async () => await cluster.close());

  test("a key or a row that is no list of them reads nothing, and nothing is pushed to row 0 for a null", async () => {
    await using cache = table.cached({ rows: 4 });
    await refuses(() => table.pull(anything(new Set([1]))), /or an array, got a Set: pass \[\.\.\.keys\]$/);
    await refuses(() => tensor.pullRows(anything([1].values())), /got an Array Iterator: pass \[\.\.\.keys\]$/);
    await refuses(() => table.pull(anything({ row: 1 })), /got {"row":1}$/);
    for (const keys of [17, 17n, "17", {}, undefined, null, new Set([1]), Float32Array.of(17)]) {
      await refuses(() => table.pull(anything(keys)), /table: keys and rows are named by/);
      await refuses(() => table.push(anything(keys), one), /table: keys and rows are named by/);
      await refuses(() => cache.pull(anything(keys)), /table: keys and rows are named by/);
      await refuses(() => tensor.pullRows(anything(keys)), /tensor: keys and rows are named by/);
      await refuses(() => tensor.pushRows(anything(keys), one), /tensor: keys and rows are named by/);
    }
    for (const key of [null, undefined, "1", true]) {
      if (key !== "1") await refuses(() => table.push(anything([key]), one), /table: keys must be whole numbers/);
      await refuses(() => tensor.pushRows(anything([key]), one), /there is no row/, "OUT_OF_RANGE");
    }
    assert.deepEqual(await tensor.pull(), new Float32Array(8));
  });

  test("a table's number of rows is one or left out: NaN is not every key", async () => {
    for (const rows of [NaN, Infinity, 0, -1, 1.5, 10n, null, "10"])
      await refuses(
        () => cluster.session.embedding("rows", { dim: 2, optimizer: "sum", rows: anything(rows) }),
        /rows is a whole number from 1 up/,
      );
    await refuses(() => cluster.session.embedding("dim", { dim: anything(16n), optimizer: "sum" }), /not 16n/);
    await refuses(
      () => cluster.session.embedding("versions", { dim: 2, optimizer: "sum", versions: anything(1) }),
      /versions is true or false, not 1/,
    );
  });

  test("bigints where numbers belong are shown, not a TypeError about JSON", async () => {
    const { session } = cluster;
    await refuses(() => session.tensor(anything(7n), { shape: [4], optimizer: "sum" }), /name is a string, not 7n/);
    await refuses(() => session.tensor("t", { shape: anything([4n]), optimizer: "sum" }), /shape of whole numbers, not \["4n"\]/);
    await refuses(
      () => session.tensor("t", { shape: [4], optimizer: { type: "sgd", learningRate: anything(1n) } }),
      /learningRate.*not 1n/,
    );
    await refuses(
      () => session.tensor("t", { shape: [4], optimizer: "sum", init: { type: "uniform", seed: anything(1n) } }),
      /seed.*not 1n/,
    );
    await refuses(() => session.tensor("t", { shape: [4], optimizer: "sum", consistency: { ssp: anything(1n) } }), /consistency is .*"1n"/);
    await refuses(() => tensor.configure({ learningRate: anything(1n) }), /learningRate.*not 1n/);
    await refuses(() => tensor.configure({ staleness: NaN }), /staleness.*not NaN/);
    await refuses(() => tensor.configure({ staleness: anything("2") }), /staleness.*not "2"/);
    for (const wrong of [
      null,
      "ssp",
      3,
      { ssp: -1 },
      { bsp: true, reduce: "max" },
      { delay: "2" },
      { ssp: 1n },
      { bsp: true, reduce: "sum", staleness: -1 },
    ])
      await refuses(() => tensor.configure({ consistency: anything(wrong) }), /consistency is /);
    await refuses(() => tensor.configure({ consistency: "asp", staleness: 2 }), /its own staleness/);
    await refuses(() => tensor.configure({ fromClock: 2 }), /fromClock.*none is given/);
    for (const wrong of [-1, 0.5, 2 ** 32, anything("3")])
      await refuses(() => tensor.configure({ consistency: "asp", fromClock: wrong }), /fromClock.*a clock/);
  });

  test("a bigint, a symbol or an object without a prototype is shown where a number or a name belongs, never a TypeError", async () => {
    const { session } = cluster;
    const worker = new TensorWorker(session);
    for (const value of [1n, Symbol("s"), Object.create(null)].map(anything)) {
      await refuses(() => tensor.pull({ clocksAhead: value }), /clocksAhead of tensor: a whole number from 0 on, not /);
      await refuses(() => session.saveParameter("tensor", value), /must have a name, not /);
      await refuses(() => session.loadParameter("tensor", value), /must have a name, not /);
      await refuses(() => session.units(value, anything({ epochs: 1 })), /the options of units .* have no "epochs"/);
      await refuses(() => worker.waitData(value), /there is no query .* of data/);
    }
  });

  test("an option of a rendezvous or a close that does not exist is named, with the nearest that does", async () => {
    const { session } = cluster;
    await refuses(() => session.rendezvous.meet("end", anything({ generation: 0, valeu: "7" })), /no "valeu"; .* did you mean value\?/);
    for (const options of [null, 7, undefined]) await refuses(() => session.rendezvous.meet("end", anything(options)), /generation/);
    await refuses(() => session.close(anything({ barier: false })), /"barier".*did you mean barrier\?/);
    await refuses(() => session.close(anything(null)), /the options of a close/);
  });

  test("a wait or a priority that makes no sense sends nothing", async () => {
    const gradient = new Float32Array(8).fill(1);
    for (const options of [
      { timeoutMs: NaN },
      { timeoutMs: -1 },
      { timeoutMs: "100" },
      { signal: 5 },
      { signal: null },
      { priority: NaN },
      { priority: "x" },
    ]) {
      await refuses(() => tensor.push(gradient, anything(options)), /timeoutMs must be|a signal is|a priority is/);
      await refuses(() => tensor.pull(anything(options)), /timeoutMs must be|a signal is|a priority is/);
    }
    assert.deepEqual(await tensor.pull(), new Float32Array(8));
  });

  test("a function has a name, fields and a handler, and is called somewhere", async () => {
    const { session } = cluster;
    const shape = { request: {}, response: {}, handler: () => ({}) };
    for (const name of [undefined, null, 5, 5n, "", "1x"])
      await refuses(() => psFunction({ ...shape, name: anything(name) }), /name begins with a letter/);
    for (const handler of [undefined, null, {}])
      await refuses(() => psFunction({ ...shape, name: "f", handler: anything(handler) }), /a handler is a function/);
    for (const request of [undefined, null, 5])
      await refuses(() => psFunction({ ...shape, name: "f", request: anything(request) }), /fields are an object/);
    for (const target of [undefined, null, 0, {}, { key: 0.5 }, { key: null }, { key: -5n }, { key: 2n ** 64n }])
      await refuses(() => session.call(sizeOf, anything(target), { list: one }), /a function is called at/);
    for (const request of [undefined, null, 5])
      await refuses(() => session.call(sizeOf, { server: 0 }, anything(request)), /an object with its fields/);
    for (const fn of [undefined, null, "sizeOf", { name: "sizeOf" }]) {
      await refuses(() => session.call(anything(fn), { server: 0 }, {}), /what is called is a function that psFunction\(\) made/);
      await refuses(() => session.callAll(anything(fn), {}), /what is called is a function that psFunction\(\) made/);
    }
    for (const options of [undefined, null, 5]) await refuses(() => psFunction(anything(options)), /described by an object with name, /);
    await refuses(() => psFunction(anything({ ...shape, name: "f", read: true })), /f: a function has no "read"; there are .*reads/);
    for (const type of ["constructor", "__proto__", "f16", 5])
      await refuses(() => psFunction({ ...shape, name: "f", request: anything({ list: type }) }), /list is of type .*; there are u32/);
    await refuses(() => session.call(sizeOf, { server: 0 }, { list: anything(Object.create(null)) }), /list must be Float32Array, but is/);
  });

  test("null in the place of options is said to be none, by every call that takes some, and nothing is sent", async () => {
    const { session } = cluster;
    const none = anything(null);
    const worker = new TensorWorker(session);
    await worker.initTensor(1, { length: 8 });
    await using cache = table.cached({ rows: 4 });
    const ones = new Float32Array(8).fill(1);
    const calls: readonly (() => unknown)[] = [
      () => session.tensor("none", none),
      () => session.embedding("none", none),
      () => session.call(none, { server: 0 }, {}),
      () => session.call(sizeOf, { server: 0 }, { list: one }, none),
      () => session.callAll(none, {}),
      () => session.callAll(sizeOf, { list: one }, none),
      () => session.rejoin(none),
      () => session.checkpoint(none),
      () => session.restore(none),
      () => session.saveParameter(none, "here"),
      () => session.saveParameter("tensor", none),
      () => session.barrier(none),
      () => session.units("units", none),
      () => session.collective(none),
      () => session.parameters(none),
      () => session.close(none),
      () => tensor.start(ones, none),
      () => tensor.push(ones, none),
      () => tensor.pull(none),
      () => tensor.pushPull(ones, none),
      () => tensor.pushPull(ones, "all", none),
      () => tensor.pushRows([0], one, none),
      () => tensor.pullRows([0], none),
      () => tensor.pushPull({ rows: [0], gradients: one }, "all", none),
      () => tensor.pushPull(none, [0]),
      () => tensor.pushPull({ rows: [0], gradients: one }, none, { into: one }),
      () => tensor.pushPull({ rows: [0], gradients: one }, [0], none),
      () => tensor.flushResidual(none),
      () => tensor.configure(none),
      () => tensor.nonFinite(none),
      () => tensor.drop(none),
      () => table.push([1], one, none),
      () => table.pull([1], none),
      () => table.pushPull(none, [1]),
      () => table.pushPull({ keys: [1], gradients: one }, [1], none),
      () => table.cached(none),
      () => cache.pull([1], { into: none }),
      () => cache.pull([1], none),
      () => cache.push([1], one, none),
      () => cache.flush(none),
      () => cache.bypass(none),
      () => cache.bypass(false, none),
      () => worker.initTensor(2, none),
      () => worker.initTensor(2, { length: 4 }, none),
      () => worker.push(1, ones, none),
      () => worker.pull(1, ones, none),
      () => worker.sparsePull(1, [0], Float32Array.of(0), none),
      () => worker.ssPushPull(1, [0], Float32Array.of(1), none, one),
      () => worker.wait(1, none),
      () => worker.pushData([1], one, [2], none),
      () => worker.pullData([1], one, [2], none),
      () => worker.sspInit(1, none),
      () => worker.sspInit(1, { size: 1, tolerance: 0 }, none),
      () => worker.sspSync(1, 0, none),
      () => worker.preduceGetPartner(1, none),
      () => psFunction(none),
      () => EmbeddedCluster.start(none),
      () => connect(none),
    ];
    for (const call of calls)
      await refuses(call, /object|is a string|have a name|named by|list of rows|Float32Array|true or false|psFunction/);
    assert.deepEqual(await tensor.pull(), new Float32Array(8));
    assert.deepEqual(await table.pull([1]), new Float32Array(2));
  });

  test("a misspelt option of a wait or a call is refused by every call of a session, with the nearest that there is", async () => {
    const { session } = cluster;
    const misspelt = anything({ timeoutM: 5 });
    const calls: readonly (() => unknown)[] = [
      () => session.tensor("none", anything({ shape: [2], timeoutM: 5 })),
      () => session.embedding("none", anything({ dim: 2, timeoutM: 5 })),
      () => session.call(sizeOf, { server: 0 }, { list: one }, misspelt),
      () => session.callAll(sizeOf, { list: one }, misspelt),
      () => session.callOwners(sizeOf, BigUint64Array.of(1n), () => ({ request: { list: one } }), misspelt),
      () => session.rejoin(misspelt),
      () => session.leaveClocks(misspelt),
      () => session.checkpoint(misspelt),
      () => session.saveParameter("tensor", "here", misspelt),
      () => session.loadParameter("tensor", "here", misspelt),
      () => session.restore(misspelt),
      () => session.barrier(misspelt),
      () => session.units("units", { ...UNITS, ...Object(misspelt) }),
      () => session.collective(misspelt),
      () => session.parameters(misspelt),
    ];
    for (const call of calls) await refuses(call, /no "timeoutM"; .* did you mean timeoutMs\?/);
    await refuses(() => session.call(sizeOf, { server: 0 }, { list: one }, anything({ priorty: 1 })), /did you mean priority\?/);
  });

  test("a wait that fails for how to wait is told, and what it would have waited for crashes nobody", async () => {
    const worker = new TensorWorker(cluster.session);
    await worker.initTensor(3, { length: 8 });
    worker.push(3, new Float32Array(7)).catch(() => {}); // whoever waits for the name hears of it
    await refuses(() => worker.wait(3, { signal: AbortSignal.abort() }), /3/, "ABORTED");
  });

  test("options that do not exist, or are no numbers, are refused before a checkpoint stops anybody", async () => {
    const { session } = cluster;
    await refuses(() => session.checkpoint(anything({ kep: 3 })), /"kep".*keep/);
    for (const keep of [-1, 1.5, NaN, "3", 3n]) await refuses(() => session.checkpoint({ keep: anything(keep) }), /keep is a whole number/);
    for (const step of [-1, 1.5, NaN, "3", 3n]) {
      await refuses(() => session.checkpoint({ step: anything(step) }), /step is a whole number/);
      await refuses(() => session.restore({ step: anything(step) }), /step is a whole number/);
    }
    await refuses(() => session.checkpoint({ keep: 0 }), /keep counts this checkpoint too/);
    await refuses(() => session.checkpoint({ job: anything(5) }), /job is the job's name/);
    await refuses(() => session.checkpoint(anything({ onCut: () => {} })), /onCut is now a promise: const \{ cut, saved \} = /);
    await refuses(() => session.checkpoint({ timeoutMs: -1 }), /timeoutMs must be/);
    const cyclic: { self?: unknown } = {};
    cyclic.self = cyclic;
    for (const note of [5, [1], { at: NaN }, { at: 1n }, { at: undefined }, cyclic])
      await refuses(() => session.checkpoint({ note: anything(note) }), /a note of plain data: note/);
    for (const name of ["", "x".repeat(257)]) {
      const told = /a parameter's name must have 1 to 256 characters, got "/;
      await refuses(() => session.tensor(name, { shape: [1], optimizer: "sum" }), told);
      await refuses(() => session.embedding(name, { dim: 1, optimizer: "sum" }), told);
      await refuses(() => session.tensor(name), told);
      await refuses(() => session.saveParameter(name, "there"), told);
      await refuses(() => session.loadParameter(name, "there"), told);
    }
    await refuses(
      () => session.tensor("wb/sums/mine", { shape: [1], optimizer: "sum" }),
      /a parameter's name must not begin with wb\/sums\//,
    );
    await refuses(() => session.saveParameter(anything(5), "there"), /a parameter's name is a string, not 5/);
    await refuses(() => session.loadParameter(anything(undefined), "there"), /a parameter's name is a string, not undefined/);
    await refuses(() => table.cached(anything({ rows: 4, pull_bound: 10 })), /"pull_bound".*pullBound/);
    await using cache = table.cached({ rows: 4 });
    await refuses(() => cache.bypass(anything("no")), /a bypass is true or false, not "no"/);
  });

  test("what is pushed and pulled at once is an object with both", async () => {
    for (const push of [undefined, null, 5]) {
      await refuses(() => tensor.pushPull(anything(push), [0]), /the pushed rows of tensor are an object with rows, gradients/);
      await refuses(() => table.pushPull(anything(push), [0]), /the pushed rows of table are an object with keys, gradients/);
    }
    await refuses(() => table.pushPull(anything({ rows: [0], gradients: one }), [0]), /have no "rows"; there are keys, gradients/);
  });

  test("a link or a consistency of which a part would be forgotten is refused; what is left out is the default", async () => {
    const { session } = cluster;
    const make = (options: object) => session.tensor("other", { shape: [2], optimizer: "sum", ...options });
    for (const name of ["toString", "constructor", "pushes"])
      await refuses(() => make({ link: { [name]: "fp16" } }), /link encoding: there is no/);
    await refuses(() => make({ link: { push: { topK: 0.1, feedback: false } } }), /push: there is no "feedback" beside topK/);
    for (const consistency of [{ ssp: 1, delay: 2 }, { ssp: 1, reduce: "mean" }, { bsp: true, reduce: "sum", ssp: 1 }, {}])
      await refuses(() => make({ consistency }), /consistency is "bsp", "asp"/);
    await make({ link: { push: undefined, pull: "fp16" } });
    const trained = await session.tensor("trained", { shape: [2], optimizer: { type: "sgd" } });
    for (const learningRate of [1e39, -1, NaN]) await refuses(() => trained.configure({ learningRate }), /learningRate: expected a/);
  });

  test("a misspelt name of a thing to choose is refused with the nearest there is, whatever is chosen", async () => {
    const { session } = cluster;
    const make = (options: object) => session.tensor("other", { shape: [2], optimizer: "sum", ...options });
    const units = (assignment: unknown) =>
      session.units("other", { epoch: 0, batchCount: 1, partCount: 1, assignment: anything(assignment) });
    const shape = { name: "sizOf", request: { list: "f32[]" }, response: { count: "u32" } } as const;
    const sizOf = psFunction({ ...shape, handler: () => ({ count: 0 }) });
    const calls: readonly (readonly [call: () => unknown, nearest: string, code?: ErrorCode])[] = [
      [() => make({ optimizer: { type: "adma" } }), "adam"],
      [() => make({ optimizer: { type: "sgd", lerningrate: 1 } }), "learningRate"],
      [() => make({ optimizer: { type: "sgd", nonFinite: "skp" } }), "skip"],
      [() => make({ optimizer: { type: "sgd", schedule: { type: "cosin", steps: 1 } } }), "cosine"],
      [() => make({ init: { type: "unifrom" } }), "uniform"],
      [() => make({ init: { type: "normal", stdd: 1 } }), "std"],
      [() => make({ init: { type: "he", distribution: "norml" } }), "normal"],
      [() => make({ consistency: "bps" }), '"bsp"'],
      [() => make({ consistency: "ssp" }), "{ ssp: clocks }"],
      [() => make({ consistency: { spp: 2 } }), "ssp"],
      [() => make({ consistency: { bsp: true, reduce: "men" } }), "mean"],
      [() => make({ link: { psuh: "fp16" } }), "push"],
      [() => make({ link: { push: "fp61" } }), "fp16"],
      [() => make({ link: { push: { topk: 0.1 } } }), "topK"],
      [() => make({ link: { compression: "zst" } }), "zstd"],
      [() => make({ link: { keys: "delt" } }), "delta"],
      [() => session.call(sizeOf, anything({ sever: 0 }), { list: one }), "server"],
      [() => session.call(sizeOf, anything({ server: 0, kye: 1n }), { list: one }), "key"],
      [() => session.call(sizOf, { server: 0 }, { list: one }), "sizeOf", "UNKNOWN_FUNCTION"],
      [() => session.callAll(sizOf, { list: one }), "sizeOf", "UNKNOWN_FUNCTION"],
      [() => psFunction({ ...shape, request: anything({ list: "f23[]" }), handler: () => ({ count: 0 }) }), "f32[]"],
      [() => psFunction(anything({ ...shape, handler: () => ({ count: 0 }), read: true })), "reads"],
      [() => table.cached({ rows: 4, policy: anything("lur") }), "lru"],
      [() => units("evn"), "even"],
      [() => EmbeddedCluster.start({ placement: anything("rnig") }), "ring"],
      [() => connect(anything({ transport: "unx" })), "unix", "BAD_CONFIG"],
    ];
    for (const [call, nearest, code] of calls)
      await refuses(call, new RegExp(`; did you mean ${nearest.replaceAll(/[{}[\]]/g, "\\$&")}\\?`), code);
    await refuses(() => session.call(sizeOf, anything({ server: 0, key: 1n }), { list: one }), /a function is called at/);
  });

  test("Hetu's numbers are numbers, its arguments a list: a rate without brackets is not the default", async () => {
    const worker = new TensorWorker(cluster.session);
    await refuses(() => worker.initTensor(1, { length: 4, opt: 0, optArgs: anything(0.5) }), /optArgs are a list of numbers, not 0.5/);
    await refuses(() => worker.initTensor(1, { length: 4, opt: anything("0") }), /opt is 0 to 5, .* not "0"/);
    await refuses(() => worker.initTensor(1, anything("four")), /the settings of a tensor are an object/);
    await refuses(() => worker.initTensor(1, anything({ length: 4, lr: 1 })), /"lr"/);
    for (const settings of [undefined, null, 8]) {
      await refuses(() => worker.sspInit(1, anything(settings)), /the settings of an SSP group are an object with size, tolerance/);
      await refuses(
        () => worker.preduceGetPartner(1, anything(settings)),
        /the settings of a partial reduce are an object with want, waitMs/,
      );
    }
    await refuses(() => worker.initTensor(anything(7n), { length: 4 }), /a tensor's name .* not 7n/);
    await refuses(() => worker.pushData(anything(3), one, [2]), /data: keys and rows are named by/);
    await refuses(() => worker.pushData([3], one, anything(undefined)), /lengths of data are a list/);
  });
});
