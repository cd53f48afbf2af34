// tensor-bad-input — Goal: whatever is wrong about a call is a typed error at its caller, changes nothing, and leaves
// everybody working.

import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { type ErrorCode, isWeighbridgeError } from "../../base/errors.ts";
import { EmbeddedCluster } from "../../node/embedded-cluster.ts";
import { OptType, ParamType } from "./tensor-settings.ts";
import { type TensorName, TensorWorker } from "./tensor-worker.ts";

const ROWS = 10;
const WIDTH = 2;
const floats = (length: number): Float32Array => new Float32Array(length).fill(1);

suite("bad input", () => {
  let cluster: EmbeddedCluster;
  let worker: TensorWorker;
  before(async () => {
    cluster = await EmbeddedCluster.start({ servers: 2 });
    worker = new TensorWorker(cluster.session);
    await worker.initTensor("tensor", { paramType: ParamType.kParam2D, length: ROWS, width: WIDTH });
    await worker.initTensor("table", { paramType: ParamType.kCacheTable, length: ROWS, width: WIDTH });
    await worker.initTensor("vector", { length: ROWS });
  });
  after(async () => await cluster.close());

  async function refuses(code: ErrorCode, call: () => Promise<unknown> | number): Promise<void> {
    await assert.rejects(
      async () => await call(),
      (error) => {
        assert.ok(isWeighbridgeError(error, code), `expected ${code}, got ${String(error)}`);
        return true;
      },
    );
  }

  async function isUntouched(name: TensorName): Promise<void> {
    const into = new Float32Array(ROWS * WIDTH);
    await worker.pull(name, into);
    assert.deepEqual(into, new Float32Array(ROWS * WIDTH));
  }

  for (const name of ["tensor", "table"]) {
    test(`${name}: values of a wrong length`, async () => {
      const all = ROWS * WIDTH;
      for (const wrong of [0, 1, all - 1, all + 1]) {
        await refuses("VALUE_LENGTH", () => worker.push(name, floats(wrong)));
        await refuses("VALUE_LENGTH", () => worker.pull(name, floats(wrong)));
        await refuses("VALUE_LENGTH", () => worker.ddPushPull(name, floats(wrong), floats(all)));
        await refuses("VALUE_LENGTH", () => worker.ddPushPull(name, floats(all), floats(wrong)));
        await refuses("VALUE_LENGTH", () => worker.sdPushPull(name, [1], floats(WIDTH), floats(wrong)));
      }
      await refuses("VALUE_LENGTH", () => worker.sparsePush(name, [1, 2], floats(3)));
      await refuses("VALUE_LENGTH", () => worker.sparsePull(name, [1, 2], floats(5)));
      await refuses("VALUE_LENGTH", () => worker.sdPushPull(name, [1], floats(3), floats(all)));
      await refuses("VALUE_LENGTH", () => worker.ssPushPull(name, [1], floats(3), [1], floats(2)));
      await refuses("VALUE_LENGTH", () => worker.ssPushPull(name, [1], floats(2), [1], floats(3)));
      await refuses("VALUE_LENGTH", () => worker.ssPushPull(name, [], floats(2), [1], floats(2)));
      await isUntouched(name);
    });

    test(`${name}: rows that are not there`, async () => {
      for (const row of [ROWS, 500, 2 ** 32, 2 ** 53, -1, 0.5, NaN]) {
        await refuses("OUT_OF_RANGE", () => worker.sparsePush(name, [0, row], floats(4)));
        await refuses("OUT_OF_RANGE", () => worker.sparsePull(name, [row], floats(2)));
        await refuses("OUT_OF_RANGE", () => worker.sdPushPull(name, [row], floats(2), floats(ROWS * WIDTH)));
        await refuses("OUT_OF_RANGE", () => worker.ssPushPull(name, [row], floats(2), [0], floats(2)));
        await refuses("OUT_OF_RANGE", () => worker.ssPushPull(name, [0], floats(2), [row], floats(2)));
      }
      await refuses("OUT_OF_RANGE", () => worker.sparsePull(name, BigUint64Array.of(2n ** 64n - 1n), floats(2)));
      await isUntouched(name);
    });

    test(`${name}: arrays of another type`, async () => {
      const doubles = new Float64Array(WIDTH) as unknown as Float32Array;
      await refuses("BAD_ARGUMENT", () => worker.sparsePush(name, [1], doubles));
      await refuses("BAD_ARGUMENT", () => worker.sparsePull(name, [1], doubles));
      await isUntouched(name);
    });

    test(`${name}: a NaN or an infinity in what is pushed`, async () => {
      for (const bad of [NaN, Infinity, -Infinity]) {
        await refuses("NOT_FINITE", () => worker.sparsePush(name, [3], Float32Array.of(1, bad)));
        await refuses("NOT_FINITE", () => worker.ssPushPull(name, [3], Float32Array.of(bad, 1), [3], floats(2)));
        await refuses("NOT_FINITE", () => worker.sdPushPull(name, [3], Float32Array.of(bad, 1), floats(ROWS * WIDTH)));
      }
      await isUntouched(name);
    });
  }

  test("names that were never initialised, or are none", async () => {
    for (const name of [99, "nobody"]) {
      await refuses("UNKNOWN_PARAMETER", () => worker.push(name, floats(1)));
      await refuses("UNKNOWN_PARAMETER", () => worker.pull(name, floats(1)));
      await refuses("UNKNOWN_PARAMETER", () => worker.sparsePull(name, [0], floats(1)));
      await refuses("UNKNOWN_PARAMETER", () => worker.wait(name));
      await refuses("UNKNOWN_PARAMETER", () => worker.clearOnServer(name));
      await refuses("UNKNOWN_PARAMETER", () => worker.save(name, "here"));
      await refuses("UNKNOWN_PARAMETER", async () => worker.clear(name));
    }
    for (const name of [-1, 1.5, NaN, ""]) {
      await refuses("BAD_ARGUMENT", () => worker.initTensor(name, { length: 1 }));
      await refuses("BAD_ARGUMENT", () => worker.push(name, floats(1)));
    }
  });

  test("settings that contradict what is there are told field by field, and what is there stays", async () => {
    await assert.rejects(
      worker.initTensor("vector", { length: ROWS + 1, opt: OptType.SGD, optArgs: [0.5] }),
      (error) =>
        isWeighbridgeError(error, "SPEC_MISMATCH") && /shape is \[10\] and \[11\]/.test(error.message) && /sgd/.test(error.message),
    );
    await refuses("SPEC_MISMATCH", () => worker.initTensor("tensor", { paramType: ParamType.kCacheTable, length: ROWS, width: WIDTH }));
    await worker.pull("vector", floats(ROWS));
  });

  test("settings that cannot be", async () => {
    await refuses("BAD_ARGUMENT", () => worker.initTensor(1, { length: 4, opt: OptType.SGD, optArgs: [NaN] }));
    await refuses("BAD_ARGUMENT", () => worker.initTensor(1, { length: 4, opt: OptType.Adam, optArgs: [0.1, 1] }));
    await refuses("BAD_ARGUMENT", () => worker.initTensor(1, { length: 4, init: 1, a: 2, b: 1 }));
    await refuses("BAD_ARGUMENT", () => worker.initTensor(1, { length: 4, init: 2, b: -1 }));
    await refuses("BAD_ARGUMENT", () => worker.initTensor(1, { length: 4, seed: -1, init: 1 }));
    await refuses("BAD_ARGUMENT", () => worker.initTensor(1, { paramType: ParamType.kCacheTable, length: 4, width: 200_000 }));
    await refuses("UNKNOWN_PARAMETER", () => worker.pull(1, floats(4)));
  });

  test("a cache of what is no kCacheTable", async () => {
    await refuses("UNSUPPORTED", async () => worker.cacheSparseTable("tensor", { rows: 1 }).close());
    await refuses("UNKNOWN_PARAMETER", async () => worker.cacheSparseTable("nobody", { rows: 1 }).close());
  });

  test("data with lengths that do not add up, or indexes that are none", async () => {
    await refuses("VALUE_LENGTH", () => worker.pushData([1, 2], floats(3), [1, 1]));
    await refuses("VALUE_LENGTH", () => worker.pushData([1], floats(2), [1, 1]));
    await refuses("BAD_ARGUMENT", () => worker.pushData([-1], floats(1), [1]));
    await refuses("BAD_ARGUMENT", () => worker.pushData([2n ** 64n], floats(1), [1]));
    await refuses("BAD_ARGUMENT", () => worker.pullData([1], floats(1), [0.5]));
    await refuses("BAD_ARGUMENT", () => worker.waitData(12_345));
    await refuses("VALUE_LENGTH", () => worker.waitData(worker.pushData([70, 70], floats(5), [2, 3])));
    await refuses("OUT_OF_RANGE", () => worker.waitData(worker.pullData([70], floats(2), [2])));
    await worker.waitData(worker.pushData([70], floats(2), [2]));
    await refuses("VALUE_LENGTH", () => worker.waitData(worker.pushData([70], floats(3), [3])));
  });

  test("groups that nobody made, of other sizes, or that cannot be", async () => {
    await refuses("NO_ROUTE", () => worker.sspSync(123, 1));
    for (const version of [Number.NaN, 0.5, -1, 1e39, "1"] as number[]) await refuses("BAD_ARGUMENT", () => worker.sspSync(123, version));
    await refuses("BAD_ARGUMENT", () => worker.sspInit(-1, { size: 1, tolerance: 0 }));
    await refuses("BAD_ARGUMENT", () => worker.sspInit(5, { size: 0, tolerance: 0 }));
    await worker.sspInit(5, { size: 1, tolerance: 2 });
    await refuses("BAD_ARGUMENT", () => worker.sspInit(5, { size: 1, tolerance: 3 }));
    await refuses("BAD_ARGUMENT", () => worker.preduceGetPartner(1, { want: 0, waitMs: 1 }));
    await refuses("BAD_ARGUMENT", () => worker.preduceGetPartner(1, { want: 1, waitMs: -1 }));
  });
});
