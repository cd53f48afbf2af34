// Goal: devices of several machines share a model: what each machine's devices pushed together goes through servers, or
// among the workers, with the freshness that was chosen; and whoever dies is named to those that wait.

import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { EmbeddedCluster } from "weighbridge/embedded";
import { createSharedModel, modelUpdater, type SharedModel, type SharedModelOptions, type Updater } from "weighbridge/shared-model";
import type { Session } from "../api/session.ts";
import { fillElements, ROW_ELEMENTS, type RowArray, type RowElement } from "../kernel/row-element.ts";
import { throwsCode } from "../testing/throws-code.ts";

type Model = SharedModel<Float32Array>;

const halved = modelUpdater({
  ...{ name: "halved", version: 1, deterministic: true, settings: { eta: 0.5 }, slots: ["velocity"] },
  initModel: (key, weights) => void weights.fill(10 + key),
  update: (_key, weights, gradient, { settings, slots }) => {
    const velocity = slots.velocity!;
    for (let i = 0; i < weights.length; i++) {
      velocity[i]! += gradient[i]!;
      weights[i]! -= settings.eta * gradient[i]!;
    }
  },
});

async function openModel(session: Session, options: SharedModelOptions<"f32">, shapes: readonly (readonly number[])[]): Promise<Model> {
  const model = createSharedModel("dist", { session, ...options });
  const devices = [1, 2];
  await model.init(devices);
  for (const device of devices) for (const [key, shape] of shapes.entries()) await model.initKey(shape, key, device);
  return model;
}

/** Both devices push, and pull what comes of it. */
async function round(model: Model, key: number, values: readonly [number, number], length: number, priority = 0): Promise<Float32Array> {
  const results = await Promise.all(
    model.devices.map(async (device, i) => {
      const data = new Float32Array(length).fill(values[i]!);
      model.push(data, key, device, priority);
      model.pullReq(data, key, device, priority);
      await model.pullWait(key, device);
      return data;
    }),
  );
  assert.ok(
    results[0]!.every((value, i) => value === results[1]![i]),
    "devices of one machine hold the same bits",
  );
  return results[0]!;
}

async function pulled(model: Model, key: number, length: number): Promise<Float32Array> {
  const data = new Float32Array(length);
  model.pullReq(data, key, 1);
  await model.pullWait(key, 1);
  return data;
}

suite("a model through servers", () => {
  test("gives every worker the sum with its own part in it: 3, 6 or 9 of three workers with two devices each, 9 at the end", async () => {
    await using cluster = await EmbeddedCluster.start({ servers: 1, workers: 3 });
    const models = await Promise.all(
      cluster.sessions.map((session) => openModel(session, { updater: { type: "sum" } }, [[2], [2, 300_000]])),
    );
    const seen = await Promise.all(models.map((model) => round(model, 1, [1, 2], 600_000)));
    for (const values of seen) for (const value of new Set(values)) assert.ok([3, 6, 9].includes(value), `${value}`);
    assert.ok(seen.some((values) => values.every((value) => value === 9)));
    for (const model of models) assert.deepEqual([...(await round(model, 0, [0, 0], 2))], [0, 0]);
    await Promise.all(models.map((model) => model.close()));
  });

  test("runs an updater of a module on the servers, with settings of setParam, and what initModel gave; once for each key", async () => {
    let initialised = 0;
    const counted = modelUpdater({
      ...halved.ofModel,
      settings: { eta: 0.25 },
      initModel: (key, weights) => {
        initialised++;
        weights.fill(10 + key);
      },
    });
    await using cluster = await EmbeddedCluster.start({ servers: 2, plugIns: [counted] });
    const model = createSharedModel("dist", { session: cluster.session, updater: counted });
    assert.throws(() => model.setParam("etta", 1), throwsCode("BAD_ARGUMENT", /did you mean eta\?/));
    assert.throws(() => model.setParam("eta", "much"), throwsCode("BAD_ARGUMENT", /eta of the updater is a number/));
    model.setParam("eta", 0.5);
    await model.init([1, 2]);
    for (const device of [1, 2]) for (const key of [0, 1]) await model.initKey([2, 100_000], key, device);
    assert.equal(initialised, 2);
    assert.equal((await pulled(model, 1, 200_000))[199_999], 11, "a pull before any push");
    assert.deepEqual(new Set(await round(model, 0, [1, 2], 200_000)), new Set([8.5]));
    assert.deepEqual(new Set(await round(model, 1, [1, 2], 200_000)), new Set([9.5]));
    assert.deepEqual(new Set(await pulled(model, 0, 200_000)), new Set([8.5]), "and again");
    await model.close();
  });

  test("in step (BSP): every worker gets what all have pushed in the round, the same bits, whatever the order of keys", async () => {
    await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 3 });
    const options = { updater: { type: "sgd", learningRate: 1 }, initialWeight: 100, consistency: "bsp" } as const;
    const models = await Promise.all(cluster.sessions.map((session) => openModel(session, options, [[3], [5]])));
    for (let step = 1; step <= 4; step++) {
      const seen = await Promise.all(
        models.map(async (model, rank) => {
          const keys = (rank + step) % 2 === 0 ? [0, 1] : [1, 0];
          const values = await Promise.all(keys.map(async (key) => [key, (await round(model, key, [rank, 1], key === 0 ? 3 : 5))[2]]));
          return Object.fromEntries(values) as Record<number, number>;
        }),
      );
      assert.deepEqual(seen, Array(3).fill({ 0: 100 - 6 * step, 1: 100 - 6 * step }));
    }
    assert.deepEqual(
      cluster.sessions.map(({ clocks }) => clocks),
      [4, 4, 4],
    );
    await Promise.all(models.map((model) => model.close()));
  });

  test("with a bound (SSP): a worker is at most so many rounds ahead of the slowest", async () => {
    await using cluster = await EmbeddedCluster.start({ servers: 1, workers: 2 });
    const options = { updater: { type: "sum" }, consistency: { ssp: 2 } } as const;
    const [fast, slow] = (await Promise.all(cluster.sessions.map((session) => openModel(session, options, [[1]])))) as [Model, Model];
    assert.equal((await round(fast, 0, [1, 0], 1))[0], 1);
    assert.equal((await round(fast, 0, [1, 0], 1))[0], 2);
    let isAhead = false;
    const third = round(fast, 0, [1, 0], 1).then((values) => {
      isAhead = true;
      return values;
    });
    for (let turn = 0; turn < 50; turn++) await new Promise<void>((resolve) => void setImmediate(resolve));
    assert.equal(isAhead, false);
    await round(slow, 0, [10, 0], 1);
    assert.equal((await third)[0], 13);
    await Promise.all([fast, slow].map((model) => model.close()));
  });

  test("needs an updater that servers can run, and says so", async () => {
    await using cluster = await EmbeddedCluster.start();
    const { session } = cluster;
    const own: Updater = { initModel: () => {}, update: () => {} };
    assert.throws(() => createSharedModel("dist", { session }), throwsCode("BAD_ARGUMENT", /a "dist" model needs the option updater/));
    assert.throws(
      () => createSharedModel("dist", { session, updater: own }),
      throwsCode("BAD_ARGUMENT", /modelUpdater\(\) makes from a module/),
    );
    assert.throws(
      () => createSharedModel("dist", { session, updater: { type: "sdg" } as never }),
      throwsCode("BAD_ARGUMENT", /did you mean sgd/),
    );
    const model = createSharedModel("dist", { session, updater: halved });
    await model.init();
    await assert.rejects(model.initKey([1], 0, 0), throwsCode("UNKNOWN_PLUG_IN", /halved/));
    await model.close();
  });

  test("has weights that are set for all workers, which what is pushed later changes; ftrl has none that can be set", async () => {
    await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2 });
    const length = 200_000; // several blocks
    const options = { updater: { type: "momentum", learningRate: 1, momentum: 0.5 }, initialWeight: 1 } as const;
    const [one, other] = (await Promise.all(cluster.sessions.map((session) => openModel(session, options, [[length]])))) as [Model, Model];
    assert.deepEqual(new Set(await round(one, 0, [1, 1], length)), new Set([-1]));
    const weights = Float32Array.from({ length }, (_, i) => i % 1000);
    await one.setWeight(weights, 0, 2);
    assert.deepEqual(await pulled(one, 0, length), weights, "a pull without a push");
    assert.deepEqual(
      await round(other, 0, [0, 0], length),
      weights.map((value) => value - 1),
      "and what the optimizer keeps goes on",
    );
    const bad = weights.slice().fill(Number.NaN, 199_999);
    await assert.rejects(one.setWeight(bad, 0, 1), throwsCode("NOT_FINITE", /cannot take NaN/));
    assert.deepEqual(
      await round(one, 0, [0, 0], length),
      weights.map((value) => value - 1.5),
    );
    const [ftrl] = (await Promise.all(
      cluster.sessions.map((session) => openModel(session, { updater: { type: "ftrl" }, name: "ftrl" }, [[2]])),
    )) as [Model];
    await assert.rejects(ftrl.setWeight(new Float32Array(2), 0, 1), throwsCode("UNSUPPORTED", /ftrl computes them/));
    await Promise.all([one, other].map((model) => model.close()));
  });

  test("is of f64, i32 and i64 as well, with lengths of whole rows and others, eventual and in step, and weights that are set", async () => {
    for (const [dtype, length] of [
      ["f64", 4096],
      ["f64", 3],
      ["i32", 10_000],
      ["i64", 4097],
    ] as const)
      for (const consistency of ["asp", "bsp"] as const) {
        await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2 });
        const { Array: View, bytes } = ROW_ELEMENTS[dtype];
        const fill = (value: number): RowArray => {
          const array: RowArray = new View(new ArrayBuffer(length * bytes));
          fillElements(array, value);
          return array;
        };
        const exchanged = async (model: SharedModel<RowArray>, value: number): Promise<RowArray> => {
          const data = [fill(value), fill(value + 1)];
          for (const device of [0, 1]) model.push(data[device]!, 5, device);
          for (const device of [0, 1]) model.pullReq(data[device]!, 5, device);
          for (const device of [0, 1]) await model.pullWait(5, device);
          assert.deepEqual(data[0], data[1]);
          return data[0]!;
        };
        const models = await Promise.all(
          cluster.sessions.map(async (session) => {
            const model = createSharedModel("dist", { session, dtype, updater: { type: "sum" }, initialWeight: 7, consistency });
            await model.init([0, 1]);
            for (const device of [0, 1]) await model.initKey([length], 5, device);
            return model as unknown as SharedModel<RowArray>;
          }),
        );
        const [one, other] = models as [SharedModel<RowArray>, SharedModel<RowArray>];
        const before = fill(0);
        one.pullReq(before, 5, 1);
        await one.pullWait(5, 1);
        assert.deepEqual(before, fill(7), "before any push");
        const large = dtype === "f64" ? 2 ** -40 : dtype === "i64" ? 2 ** 50 : 2 ** 20; // what f32 could not add
        const both = await Promise.all(models.map((model) => exchanged(model, large)));
        const sum = 7 + 2 * (2 * large + 1);
        assert.ok(
          both.some((values) => String(values) === String(fill(sum))),
          `${dtype}, ${consistency}`,
        );
        if (consistency === "bsp") assert.deepEqual(both, [fill(sum), fill(sum)]);
        const weights = fill(3);
        await one.setWeight(weights, 5, 0);
        const after = await Promise.all(models.map((model) => exchanged(model, -1)));
        if (consistency === "bsp") assert.deepEqual(after, [fill(1), fill(1)]);
        const last = await Promise.all([exchanged(one, 0), exchanged(other, -1)]);
        if (consistency === "bsp") assert.deepEqual(last, [fill(1), fill(1)]);
        await Promise.all(models.map((model) => model.close()));
      }
  });

  test("of f64 runs built-in updaters and updaters of a module on the servers; what there is none for is refused by name", async () => {
    const scaled = modelUpdater({
      ...{ name: "scaled", version: 1, deterministic: true, dtype: "f64", settings: { eta: 0.25 }, slots: ["sum"] },
      initModel: (key, weights) => void weights.fill(10 + key),
      update: (_key, weights, gradient, { settings, slots }) => {
        for (let i = 0; i < weights.length; i++) {
          slots.sum![i]! += gradient[i]!;
          weights[i]! -= settings.eta * slots.sum![i]!;
        }
      },
    });
    await using cluster = await EmbeddedCluster.start({ servers: 2, plugIns: [scaled] });
    const { session } = cluster;
    const pushed = async (updater: SharedModelOptions["updater"], name: string): Promise<readonly Float64Array[]> => {
      const model = createSharedModel("dist", { session, dtype: "f64", updater: updater!, initialWeight: 1, name });
      await model.init([0]);
      await model.initKey([3, 3000], 2, 0);
      const seen: Float64Array[] = [];
      for (let step = 0; step < 3; step++) {
        const data = new Float64Array(9000).fill(step === 0 ? 0 : 2);
        if (step > 0) model.push(data, 2, 0);
        model.pullReq(data, 2, 0);
        await model.pullWait(2, 0);
        seen.push(data);
      }
      await model.close();
      for (const values of seen) assert.equal(new Set(values).size, 1);
      return seen;
    };
    const firsts = (seen: readonly Float64Array[]): number[] => seen.map((values) => values[8999]!);
    assert.deepEqual(firsts(await pushed(scaled, "own")), [12, 11.5, 10.5]);
    assert.deepEqual(firsts(await pushed({ type: "sgd", learningRate: 0.5 }, "sgd")), [1, 0, -1]);
    assert.deepEqual(firsts(await pushed({ type: "momentum", learningRate: 0.5, momentum: 0.5 }, "momentum")), [1, 0, -1.5]);
    const refused = (options: object, message: RegExp): void =>
      assert.throws(() => createSharedModel("dist", { session, ...options } as never), throwsCode("BAD_ARGUMENT", message));
    const [, afterOne] = firsts(await pushed({ type: "adam", learningRate: 0.5 }, "adam"));
    assert.ok(Math.abs(afterOne! - 0.5) < 1e-8, `Adam's first step is as long as its rate: ${afterOne}`);
    refused({ dtype: "f64", updater: { type: "lazyAdam" } }, /optimizer lazyAdam is not for rows of f64; there are sum, assign/);
    refused({ dtype: "i32", updater: { type: "sgd" } }, /optimizer sgd is not for rows of i32/);
    refused({ dtype: "i32", updater: { type: "sum" }, initialWeight: 0.5 }, /begin with a constant that is a whole number/);
    refused({ dtype: "i64", updater: scaled }, /the updater scaled is for f64, but the model has i64/);
    assert.throws(() => modelUpdater({ ...scaled.ofModel, dtype: "f16" } as never), throwsCode("BAD_ARGUMENT", /dtype is one of f32/));
  });

  test("has options of its own, checked", async () => {
    await using cluster = await EmbeddedCluster.start();
    const { session } = cluster;
    const refused = (options: object, message: RegExp): void =>
      assert.throws(
        () => createSharedModel("dist", { session, updater: { type: "sum" }, ...options } as never),
        throwsCode("BAD_ARGUMENT", message),
      );
    refused({ through: "server" }, /did you mean servers\?/);
    refused({ consistency: "bps" }, /did you mean "bsp"/);
    refused({ reduce: "mean" }, /reduce is for through: "allReduce"/);
    refused({ name: "" }, /name is a text/);
    refused({ session: {} }, /session is what connect\(\) gives/);
    refused({ sesion: session }, /did you mean session\?/);
    refused({ through: "allReduce", consistency: "bsp", updater: undefined }, /consistency is for servers/);
    refused({ through: "allReduce", reduce: "max", updater: undefined }, /reduce is sum or mean/);
    assert.throws(() => createSharedModel("local", { session }), throwsCode("BAD_ARGUMENT", /session is an option of a "dist" model/));
    refused({ through: "allReduce", reduce: "mean", dtype: "i64", updater: undefined }, /reduce "mean" is for floats, not i64/);
    const model = createSharedModel("dist", { session, updater: { type: "sum" } });
    model.setParam("update_on_server", 0);
    await assert.rejects(model.init(), throwsCode("BAD_ARGUMENT", /cannot be off/));
    await model.close();
  });
});

suite("what ends in the middle of a round", () => {
  const data = new Float32Array(1);
  const pushFrom = (model: Model): void => {
    for (const device of model.devices) model.push(data, 0, device);
    model.pullReq(data, 0, 1);
  };

  test("a wait at level 2 has a deadline and a signal, and close() ends it", async () => {
    await using cluster = await EmbeddedCluster.start({ workers: 2 });
    const options = { updater: { type: "sum" }, consistency: "bsp" } as const;
    const [waiting, late] = (await Promise.all(cluster.sessions.map((session) => openModel(session, options, [[1]])))) as [Model, Model];
    pushFrom(waiting);
    await assert.rejects(waiting.pullWait(0, 1, { timeoutMs: 1 }), throwsCode("DEADLINE", /pull of key 0 by device 1/));
    await assert.rejects(waiting.pullWait(0, 1, { signal: AbortSignal.abort() }), throwsCode("ABORTED"));
    const wait = waiting.pullWait(0, 1);
    await waiting.close();
    await assert.rejects(wait, throwsCode("CLOSED"));
    pushFrom(late);
    await late.pullWait(0, 1); // what the other had pushed counts
    await late.close();
  });

  test("a worker that leaves is not waited for under BSP, and named by an all-reduce", async () => {
    await using cluster = await EmbeddedCluster.start({ workers: 2 });
    const [session, leaver] = cluster.sessions as [Session, Session];
    const bsp = await Promise.all([session, leaver].map((one) => openModel(one, { updater: { type: "sum" }, consistency: "bsp" }, [[1]])));
    const ring = await Promise.all([session, leaver].map((one) => openModel(one, { through: "allReduce" }, [[1]])));
    for (const model of [bsp[0]!, ring[0]!]) pushFrom(model);
    const refused = assert.rejects(ring[0]!.pullWait(0, 1), throwsCode("CLOSED", /worker 1 has closed its collective/));
    await leaver.close({ barrier: false });
    await bsp[0]!.pullWait(0, 1);
    await refused;
    pushFrom(ring[0]!);
    await assert.rejects(ring[0]!.pullWait(0, 1), throwsCode("CLOSED", /worker 1/), "later rounds as well");
    await Promise.all([...bsp, ...ring].map((model) => model.close()));
  });

  test("init has a deadline, and names who is missing", async () => {
    await using cluster = await EmbeddedCluster.start({ workers: 2 });
    const model = createSharedModel("dist", { session: cluster.session, through: "allReduce" });
    await assert.rejects(model.init([0], { timeoutMs: 50 }), throwsCode("DEADLINE"));
    await model.close();
  });
});

suite("a model through an all-reduce", () => {
  test("gives every worker the sum, or the mean, of all, whatever the order in which they finish rounds", async () => {
    for (const [reduce, factor] of [
      ["sum", 1],
      ["mean", 1 / 3],
    ] as const) {
      await using cluster = await EmbeddedCluster.start({ workers: 3 });
      const lengths = [3, 700_001, 5];
      const models = await Promise.all(
        cluster.sessions.map((session) =>
          openModel(
            session,
            { through: "allReduce", reduce },
            lengths.map((length) => [length]),
          ),
        ),
      );
      for (let step = 1; step <= 3; step++) {
        const seen = await Promise.all(
          models.map(async (model, rank) => {
            const keys = [0, 1, 2].map((key) => (key + rank) % 3);
            const values = await Promise.all(
              keys.map(async (key) => [key, await round(model, key, [rank * step, 1], lengths[key]!)] as const),
            );
            return Object.fromEntries(values) as Record<number, Float32Array>;
          }),
        );
        for (const values of seen)
          for (const key of lengths.keys())
            assert.deepEqual([...new Set(values[key])], [Math.fround((3 * step + 3) * factor)], `${reduce} of key ${key}`);
      }
      await Promise.all(models.map((model) => model.close()));
    }
  });

  test("closes at all workers, and is opened again on the same sessions", async () => {
    await using cluster = await EmbeddedCluster.start({ servers: 1, workers: 2 });
    for (let turn = 0; turn < 3; turn++) {
      const sums = await Promise.all(
        cluster.sessions.map(async (session) => {
          const model = await openModel(session, { through: "allReduce" }, [[1]]);
          const [sum] = await round(model, 0, [1, 2], 1);
          await model.close();
          return sum;
        }),
      );
      assert.deepEqual(sums, [6, 6], `turn ${turn}`);
    }
  });

  test("gives the sum to an updater of each worker's own", async () => {
    await using cluster = await EmbeddedCluster.start({ workers: 2 });
    const ranks: number[] = [];
    const updater: Updater<"f32"> = {
      initUpdater: (rank) => void ranks.push(rank),
      initModel: (_, weights) => void weights.fill(10),
      update: (_, weights, gradient) => {
        for (let i = 0; i < weights.length; i++) weights[i]! -= gradient[i]! / 2;
      },
    };
    const models = await Promise.all(
      cluster.sessions.map((session) => openModel(session, { through: "allReduce", updater: updater as Updater }, [[2]])),
    );
    assert.deepEqual(
      ranks.toSorted((a, b) => a - b),
      [0, 1],
    );
    const seen = await Promise.all(models.map((model, rank) => round(model, 0, [rank, 1], 2)));
    assert.deepEqual(seen, [Float32Array.of(8.5, 8.5), Float32Array.of(8.5, 8.5)]);
    await Promise.all(models.map((model) => model.close()));
  });

  test("gives the sum to built-in updaters, with the bits that one machine with all devices has; their weights can be set", async () => {
    await using cluster = await EmbeddedCluster.start({ workers: 2 });
    const length = 5000; // more than a chunk
    const updaters = [
      { type: "sgd", learningRate: 0.5, clipValue: 2.5 },
      { type: "adam", learningRate: 0.1, schedule: { type: "step", every: 2, factor: 0.5 } },
      { type: "rmsprop", momentum: 0.5 },
      { type: "ftrl" },
    ] as const;
    const values = Array.from({ length: 4 }, (_, step) => [step + 0.25, 1 - step] as const);
    for (const [i, updater] of updaters.entries()) {
      const options = { updater, initialWeight: 0.5 };
      const run = async (model: Model): Promise<readonly Float32Array[]> => {
        const seen = [await pulled(model, 0, length)];
        for (const [step, pair] of values.entries()) {
          if (step === 2 && updater.type !== "ftrl") await model.setWeight(new Float32Array(length).fill(7), 0, 1);
          seen.push(await round(model, 0, pair, length));
        }
        if (updater.type === "ftrl")
          await assert.rejects(model.setWeight(new Float32Array(length), 0, 1), throwsCode("UNSUPPORTED", /key 0 .* ftrl computes them/));
        await model.close();
        return seen;
      };
      const models = await Promise.all(
        cluster.sessions.map((session) => openModel(session, { through: "allReduce", reduce: "mean", ...options }, [[length]])),
      );
      const [one, other] = (await Promise.all(models.map(run))) as [readonly Float32Array[], readonly Float32Array[]];
      const alone = createSharedModel("local", options);
      await alone.init([1, 2]);
      for (const device of [1, 2]) await alone.initKey([length], 0, device);
      const expected = await run(alone);
      assert.deepEqual(one, other, `updater ${i}`);
      assert.deepEqual(one, expected, `updater ${i}`);
    }
  });

  test("with msg:disable_allreduce leaves every machine its own sum", async () => {
    await using cluster = await EmbeddedCluster.start({ workers: 2 });
    const sums = await Promise.all(
      cluster.sessions.map(async (session, rank) => {
        const model = createSharedModel("dist", { session, through: "allReduce" });
        assert.throws(() => model.setParam("msg:disable_allreduce", "no"), throwsCode("BAD_ARGUMENT", /is 0 or 1/));
        model.setParam("msg:disable_allreduce", 1);
        model.setParam("msg:other", "ignored");
        await model.init([1, 2]);
        for (const device of [1, 2]) await model.initKey([1], 0, device);
        const [sum] = await round(model, 0, [rank, 5], 1);
        await model.close();
        return sum;
      }),
    );
    assert.deepEqual(sums, [5, 6]);
  });

  test("is of f64, i32 and i64 as well, short and long, with built-in updaters of those; workers of different types are told", async () => {
    const opened = async <E extends RowElement>(session: Session, dtype: E, options: SharedModelOptions<E>, length: number) => {
      const model = createSharedModel<RowElement>("dist", { session, through: "allReduce", dtype, ...options } as SharedModelOptions);
      await model.init([0, 1]);
      for (const device of [0, 1]) await model.initKey([length], 0, device);
      return model as SharedModel<RowArray>;
    };
    for (const dtype of ["f64", "i32", "i64"] as const)
      for (const length of [3, 700_001]) {
        await using cluster = await EmbeddedCluster.start({ workers: 3 });
        const isMean = dtype === "f64" && length === 3;
        const options = isMean ? { reduce: "mean" } : { updater: { type: "sum" }, initialWeight: 5 };
        const models = await Promise.all(cluster.sessions.map((session) => opened(session, dtype, options as never, length)));
        const { Array: View, bytes } = ROW_ELEMENTS[dtype];
        const large = dtype === "f64" ? 2 ** -45 : dtype === "i64" ? 2 ** 40 : 2 ** 26; // what f32 could not add
        const seen = await Promise.all(
          models.map(async (model, rank) => {
            const data = [0, 1].map((device): RowArray => {
              const array: RowArray = new View(new ArrayBuffer(length * bytes));
              fillElements(array, rank + 1 + (device === 0 ? large : 0));
              return array;
            });
            for (const device of [0, 1]) model.push(data[device]!, 0, device);
            for (const device of [0, 1]) model.pullReq(data[device]!, 0, device);
            for (const device of [0, 1]) await model.pullWait(0, device);
            return new Set([...data[0]!, ...data[1]!].map(Number));
          }),
        );
        const sum = 12 + 3 * large;
        for (const values of seen) assert.deepEqual([...values], [isMean ? sum / 3 : 5 + sum], `${dtype} × ${length}`);
        await Promise.all(models.map((model) => model.close()));
      }
    await using cluster = await EmbeddedCluster.start({ workers: 2 });
    const models = await Promise.all(cluster.sessions.map((session, rank) => opened(session, rank === 0 ? "i32" : "f32", {}, 4)));
    const ends = models.map(async (model, rank) => {
      const data = rank === 0 ? new Int32Array(4) : new Float32Array(4);
      for (const device of [0, 1]) model.push(data, 0, device);
      model.pullReq(data, 0, 0);
      await model.pullWait(0, 0);
    });
    await Promise.all(ends.map((end) => assert.rejects(end, throwsCode("SPEC_MISMATCH", /an all-reduce of 4 elements \(type 6\)/))));
    await Promise.all(models.map((model) => model.close()));
  });

  test("names the key that workers describe differently", async () => {
    await using cluster = await EmbeddedCluster.start({ workers: 2 });
    const models = await Promise.all(
      cluster.sessions.map((session, rank) => openModel(session, { through: "allReduce" }, [[2 + rank], [2]])),
    );
    const rounds = models.map((model, rank) => round(model, 0, [1, 1], 2 + rank));
    for (const one of rounds) await assert.rejects(one, throwsCode("SPEC_MISMATCH", /key 0 has 2, 3 elements at workers 0, 1/));
    assert.deepEqual(await Promise.all(models.map((model) => round(model, 1, [1, 1], 2))), Array(2).fill(Float32Array.of(4, 4)));
    await Promise.all(models.map((model) => model.close()));
  });
});
