// Goal: a shared model of one machine does what mshadow-ps does, measured figure by measured figure, with async tasks
// for devices; what is wrong is told by a typed error, and nothing hangs.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { suite, test } from "node:test";
import {
  type ChromeTrace,
  createSharedModel,
  isWeighbridgeError,
  type SharedModel,
  type SharedModelOptions,
  type Updater,
} from "weighbridge/shared-model";
import { temporaryDirectory } from "../../test/support/temporary-directory.ts";
import { throwsCode } from "../testing/throws-code.ts";

/** A model whose devices know these keys. */
async function openModel(
  devices: readonly number[],
  keys: Readonly<Record<number, readonly number[]>>,
  { params = {}, ...options }: SharedModelOptions & { readonly params?: Readonly<Record<string, string | number>> } = {},
): Promise<SharedModel<Float32Array>> {
  const model = createSharedModel("local", options as SharedModelOptions<"f32">);
  for (const [name, value] of Object.entries(params)) model.setParam(name, value);
  await model.init(devices);
  for (const [key, shape] of Object.entries(keys)) for (const device of devices) await model.initKey(shape, Number(key), device);
  return model;
}

suite("local_sum", () => {
  const cases: readonly [devices: number[], first: number, second: number][] = [
    [[0, 1, 2], 3, 6],
    [[1, 2], 2, 5],
    [[0, 1, 2, 3], 4, 10],
  ];
  for (const [devices, first, second] of cases) {
    for (const isOwn of [true, false]) {
      test(`devices ${devices.join(", ")} all hold ${first} and ${second}, from ${isOwn ? "tensors of the model" : "arrays of their own"}`, async () => {
        await using model = await openModel(devices, { 0: [1, 3], 1: [1, 3] });
        const held = await Promise.all(
          devices.map(async (device) => {
            const rows = [0, 1].map(() => (isOwn ? model.tensor([3], device) : new Float32Array(3)));
            const [row0, row1] = rows as [Float32Array, Float32Array];
            row0.fill(1);
            row1.fill(device + 1);
            for (const [key, row] of rows.entries()) {
              model.push(row, key, device);
              model.pullReq(row, key, device);
            }
            for (const key of rows.keys()) await model.pullWait(key, device);
            return rows.map((row) => [...row]);
          }),
        );
        const expected = [first, second].map((value) => [value, value, value]);
        assert.deepEqual(
          held,
          devices.map(() => expected),
        );
      });
    }
  }
});

/** Counts, and does w -= rate × g. */
class CountingSgd implements Updater<"f32"> {
  readonly calls: string[] = [];
  readonly #params = new Map<string, string>();

  setParam(name: string, value: string): void {
    this.#params.set(name, value);
  }

  initUpdater(rank: number, args: readonly string[]): void {
    this.calls.push(`initUpdater ${rank} ${args.join(" ")}`);
  }

  initModel(key: number, weights: Float32Array): void {
    this.calls.push(`initModel ${key}`);
    weights.fill(10);
  }

  update(key: number, weights: Float32Array, gradient: Float32Array): void {
    this.calls.push(`update ${key} ${gradient[0]}`);
    for (let i = 0; i < weights.length; i++) weights[i] = weights[i]! - Number(this.#params.get("eta")) * gradient[i]!;
  }
}

suite("update_on_server", () => {
  test("begins with 10, is updated once with 3 by gradients 1 and 2 at rate 0.5, and gives 8.5 again and again", async () => {
    const updater = new CountingSgd();
    const model = createSharedModel("local", { updater: updater as Updater });
    model.setParam("update_on_server", "1");
    model.setParam("eta", "0.5");
    await model.init([0, 1], { args: ["a", "b"] });
    for (const device of [0, 1]) await model.initKey([2, 2], 7, device);
    const pulled = async (device: number): Promise<number[]> => {
      const data = new Float32Array(4);
      model.pullReq(data, 7, device);
      await model.pullWait(7, device);
      return [...data];
    };
    assert.deepEqual(await pulled(0), [10, 10, 10, 10]);
    for (const device of [0, 1]) model.push(new Float32Array(4).fill(device + 1), 7, device);
    assert.deepEqual(await Promise.all([pulled(0), pulled(1)]), [new Array(4).fill(8.5), new Array(4).fill(8.5)]);
    assert.deepEqual(await pulled(1), new Array(4).fill(8.5));
    await model.initKey([2, 2], 7, 0);
    assert.deepEqual(await pulled(1), new Array(4).fill(8.5), "a late initKey resets nothing");
    assert.deepEqual(updater.calls, ["initUpdater 0 a b", "initModel 7", "update 7 3"]);
    await model.close();
  });

  test("a built-in updater gives the same", async () => {
    await using model = await openModel([0, 1], { 7: [4] }, { updater: { type: "sgd", learningRate: 0.5 }, initialWeight: 10 });
    const data = [0, 1].map((device) => model.tensor([4], device));
    model.pullReq(data[0]!, 7, 0);
    await model.pullWait(7, 0);
    assert.equal(data[0]![3], 10);
    for (const device of [0, 1]) {
      data[device]!.fill(device + 1);
      model.push(data[device]!, 7, device);
      model.pullReq(data[device]!, 7, device);
    }
    for (const device of [0, 1]) await model.pullWait(7, device);
    assert.deepEqual(
      data.map((each) => [...each]),
      [new Array(4).fill(8.5), new Array(4).fill(8.5)],
    );
  });

  test("an updater that throws fails the pulls of that round, and the next round goes on", async () => {
    let rounds = 0;
    const updater: Updater<"f32"> = {
      initModel: (_, weights) => void weights.fill(1),
      update: (_, weights, gradient) => {
        if (++rounds === 1) throw new Error("no luck");
        weights.set(gradient);
      },
    };
    await using model = await openModel([0, 1], { 0: [2] }, { updater: updater as Updater });
    const data = new Float32Array(2);
    for (const device of [0, 1]) model.push(new Float32Array(2).fill(1), 0, device);
    model.pullReq(data, 0, 0);
    await assert.rejects(model.pullWait(0, 0), throwsCode("HANDLER_FAILED", /update of the updater threw for key 0: no luck/));
    model.pullReq(data, 0, 1);
    await assert.rejects(model.pullWait(0, 1), throwsCode("HANDLER_FAILED", /no luck/), "its push was dropped, too");
    for (const device of [0, 1]) model.push(new Float32Array(2).fill(4), 0, device);
    model.pullReq(data, 0, 0);
    await model.pullWait(0, 0);
    assert.deepEqual([...data], [8, 8]);
  });
});

test("gather gives the rows in the order of devices", async () => {
  const devices = [5, 2, 9];
  await using model = await openModel(devices, { 3: [2] }, { params: { "push_op[3]": "gather" } });
  const results = devices.map(() => new Float32Array(6));
  for (const [i, device] of devices.entries()) {
    model.push(new Float32Array(2).fill(device), 3, device);
    model.pullReq(results[i]!, 3, device);
  }
  for (const device of devices) await model.pullWait(3, device);
  for (const result of results) assert.deepEqual([...result], [5, 5, 2, 2, 9, 9]);
});

test("4 devices of any speed have the same bits in each of 100 rounds, and rounds do not mix", async () => {
  const devices = [0, 1, 2, 3];
  const length = 1000;
  await using model = await openModel(devices, { 0: [length] }, { params: { bigarray_bound: 100 } });
  const value = (device: number, round: number, i: number): number => Math.fround(Math.sin(device * 31 + round * 7 + i) / 3);
  const held = await Promise.all(
    devices.map(async (device) => {
      const rounds: Float32Array[] = [];
      const data = new Float32Array(length);
      for (let round = 0; round < 100; round++) {
        for (let i = 0; i < length; i++) data[i] = value(device, round, i);
        model.push(data, 0, device);
        for (let turn = 0; turn < (device * 3 + round) % 5; turn++) await Promise.resolve();
        model.pullReq(data, 0, device);
        await model.pullWait(0, device);
        rounds.push(data.slice());
      }
      return rounds;
    }),
  );
  for (let round = 0; round < 100; round++) {
    const expected = Float32Array.from({ length }, (_, i) =>
      devices.reduce((sum, device) => Math.fround(sum + value(device, round, i)), 0),
    );
    for (const device of devices) assert.deepEqual(held[device]![round], expected, `round ${round}, device ${device}`);
  }
});

test("a fast device starts the next round before the others have pulled, and a third one is refused until there is room", async () => {
  await using model = await openModel([0, 1], { 0: [1] });
  const push = (device: number, value: number): void => model.push(new Float32Array([value]), 0, device);
  const slow = new Float32Array(1);
  for (const device of [0, 1]) push(device, 1);
  model.pullReq(slow, 0, 1);
  push(0, 10);
  push(1, 10);
  assert.throws(() => push(0, 100), throwsCode("QUEUE_FULL", /two rounds are under way/));
  const fast = new Float32Array(1);
  model.pullReq(fast, 0, 0);
  await Promise.all([model.pullWait(0, 0), model.pullWait(0, 1)]);
  assert.deepEqual([fast[0], slow[0]], [20, 2], "the slow pull is bound to its own round");
  push(0, 100);
});

suite("lists of keys", () => {
  test("are pushed and pulled again and again, with what has changed in them; one that names a key twice does nothing", async () => {
    await using model = createSharedModel("local");
    await model.init([0, 1]);
    for (const key of [0, 1, 2]) await model.initKey([2], key, 0);
    const listOf = (device: number): { data: Float32Array; key: number }[] =>
      [0, 1, 2].map((key) => ({ data: new Float32Array(2).fill(10 * key + device), key }));
    const [pushed, pulled] = [
      [listOf(0), listOf(1)],
      [listOf(0), listOf(1)],
    ];
    for (let round = 0; round < 5; round++) {
      if (round === 3) pushed[1]![2] = { data: Float32Array.of(100, 100), key: 2 };
      if (round === 4) pulled[0]![0]!.data = new Float32Array(2);
      for (const device of [0, 1]) model.pushAll(pushed[device]!, device);
      for (const device of [0, 1]) model.pullAll(pulled[device]!, device);
      for (const device of [0, 1]) await model.pullWaitAll(device);
      const expected = [1, 21, round < 3 ? 41 : 120];
      for (const list of pulled)
        assert.deepEqual(
          list.map(({ data }) => data[1]),
          expected,
          `round ${round}`,
        );
    }
    const twice = [...listOf(0), { data: new Float32Array(2), key: 1 }];
    assert.throws(() => model.pushAll(twice, 0), throwsCode("BAD_ARGUMENT", /the items of pushAll have key 1 twice/));
    assert.throws(() => model.pullAll(twice, 0), throwsCode("BAD_ARGUMENT", /the items of pullAll have key 1 twice/));
    for (const device of [0, 1]) model.pushAll(pushed[device]!, device); // none of them counted
  });

  test("a pull that failed is told once it is waited for, also of a list that is given again", async () => {
    await using model = createSharedModel("local", { onDeviceLoss: "continue" });
    await model.init([0, 1]);
    await model.initKey([1], 0, 0);
    const list = [{ data: new Float32Array(1), key: 0 }];
    const round = async (): Promise<void> => {
      model.pushAll(list, 0);
      model.pullAll(list, 0);
      await model.pullWaitAll(0);
    };
    for (let i = 0; i < 3; i++) {
      model.push(new Float32Array(1), 0, 1);
      await round();
    }
    model.pushAll(list, 0);
    model.pullAll(list, 0);
    const waits = assert.rejects(model.pullWait(0, 0), throwsCode("NODE_DEAD", /device 1/));
    model.removeDevice(1);
    await waits;
    for (let i = 0; i < 2; i++) await round();
  });
});

suite("priorities", () => {
  const orderOf = async (isOwn: boolean, params: Readonly<Record<string, string>>): Promise<number[]> => {
    const keys = [0, 1, 2, 3, 4, 5];
    await using model = await openModel([0], Object.fromEntries(keys.map((key) => [key, [4]])), { params });
    const ended: number[] = [];
    for (const key of keys) {
      const data = isOwn ? model.tensor([4], 0) : new Float32Array(4);
      const priority = [0, 5, -1, 5, 0, 9][key]!;
      model.push(data, key, 0, priority);
      model.pullReq(data, key, 0, priority, () => void ended.push(key));
    }
    await model.pullWaitAll(0);
    return ended;
  };

  test("the highest goes first, and the earlier of two equal ones", async () => {
    for (const isOwn of [true, false]) assert.deepEqual(await orderOf(isOwn, {}), [5, 1, 3, 0, 4, 2]);
    assert.deepEqual(await orderOf(true, { push_thread: "one", pull_thread: "one" }), [5, 1, 3, 0, 4, 2]);
  });

  test("pulls alone are handed out by theirs, whatever their pushes had", async () => {
    for (const isOwn of [true, false]) {
      const keys = [0, 1, 2, 3];
      await using model = await openModel([0], Object.fromEntries(keys.map((key) => [key, [4]])));
      for (const key of keys) model.push(new Float32Array(4), key, 0, -key);
      for (const key of keys) model.pullReq(new Float32Array(4), key, 0);
      await model.pullWaitAll(0);
      const ended: number[] = [];
      for (const key of keys)
        model.pullReq(isOwn ? model.tensor([4], 0) : new Float32Array(4), key, 0, [1, 3, 3, 2][key]!, () => void ended.push(key));
      await model.pullWaitAll(0);
      assert.deepEqual(ended, [1, 2, 3, 0]);
    }
  });
});

test("push and pullReq return at once: what they ask for is done when their caller waits, or its event loop turns", async () => {
  await using model = await openModel([0, 1], { 0: [1_000_000] });
  const data = [0, 1].map((device) => model.tensor([1_000_000], device).fill(device + 1));
  const lasts = (): unknown => data.map((each) => each[999_999]);
  let pulled = 0;
  for (const device of [0, 1]) {
    model.push(data[device]!, 0, device);
    model.pullReq(data[device]!, 0, device, 0, () => void pulled++);
  }
  assert.deepEqual([lasts(), pulled], [[1, 2], 0]);
  for (const device of [0, 1]) await model.pullWait(0, device);
  assert.deepEqual([lasts(), pulled], [[3, 3], 2]);
});

suite("callbacks", () => {
  test("run after the data are there, and end before pullWait does", async () => {
    await using model = await openModel([0], { 0: [1] });
    const told: string[] = [];
    const data = new Float32Array([3]);
    model.push(data, 0, 0);
    model.pullReq(data, 0, 0, 0, async ({ data: pulled, key, device }) => {
      told.push(`begins with ${pulled[0]} ${key} ${device}`);
      for (let turn = 0; turn < 20; turn++) await new Promise<void>((resolve) => void setImmediate(resolve));
      told.push("ends");
    });
    told.push("returned");
    await model.pullWait(0, 0);
    told.push("waited");
    assert.deepEqual(told, ["returned", "begins with 3 0 0", "ends", "waited"]);
  });

  test("that throw, or reject, are what pullWait rejects with; the model goes on", async () => {
    await using model = await openModel([0], { 0: [1] });
    const data = new Float32Array([3]);
    model.push(data, 0, 0);
    model.pullReq(data, 0, 0, 0, () => {
      throw new Error("oh no");
    });
    await assert.rejects(model.pullWait(0, 0), throwsCode("HANDLER_FAILED", /callback of device 0's pull of key 0 threw: oh no/));
    model.pullReq(data, 0, 0, 0, async () => await Promise.reject(new Error("not again")));
    await assert.rejects(model.pullWait(0, 0), throwsCode("HANDLER_FAILED", /not again/));
    model.pullReq(data, 0, 0);
    await model.pullWait(0, 0);
  });
});

suite("what is wrong is told", () => {
  test("a second push in a round, a second pull that is open, another length, another type", async () => {
    await using model = await openModel([0, 1], { 0: [2] });
    const data = new Float32Array(2);
    model.push(data, 0, 0);
    assert.throws(() => model.push(data, 0, 0), throwsCode("BAD_ARGUMENT", /device 0 has pushed key 0 in this round already/));
    model.pullReq(data, 0, 0);
    assert.throws(() => model.pullReq(data, 0, 0), throwsCode("BAD_ARGUMENT", /device 0 has a pull of key 0 that has not ended/));
    assert.throws(() => model.push(new Float32Array(3), 0, 1), throwsCode("VALUE_LENGTH", /key 0: what is pushed has 2 elements, not 3/));
    assert.throws(() => model.pullReq(new Float32Array(3), 0, 1), throwsCode("VALUE_LENGTH", /has 2 elements, not 3/));
    assert.throws(
      () => model.push(new Float64Array(2) as never, 0, 1),
      throwsCode("BAD_ARGUMENT", /is a Float32Array, not a Float64Array/),
    );
    assert.throws(() => model.push(new Float32Array(0), 0, 1), throwsCode("BAD_ARGUMENT", /is empty/));
    assert.throws(() => model.push(data, 0, 1, 0.5), throwsCode("BAD_ARGUMENT", /priority is a whole number/));
    assert.throws(() => model.push(data, 0, 1, 0, { after: {} }), throwsCode("BAD_ARGUMENT", /there is no `after`/));
    assert.throws(() => model.pullReq(data, 0, 1, 0, 7 as never), throwsCode("BAD_ARGUMENT", /callback is a function/));
  });

  test("an unknown key, a wrong device, a wrong shape", async () => {
    await using model = await openModel([0, 1], { 0: [2, 3] });
    const data = new Float32Array(6);
    assert.throws(() => model.push(data, 9, 0), throwsCode("UNKNOWN_PARAMETER", /key 9 is not known/));
    assert.throws(() => model.pullReq(data, 9, 0), throwsCode("UNKNOWN_PARAMETER", /key 9/));
    await assert.rejects(model.pullWait(9, 0), throwsCode("UNKNOWN_PARAMETER", /key 9 is not known/));
    await model.pullWait(0, 0);
    for (const device of [2, -1, 0.5, "0" as never])
      assert.throws(() => model.push(data, 0, device), throwsCode("BAD_ARGUMENT", /the devices are 0, 1/));
    for (const shape of [[], [0], [2, -1], [1.5], "2" as never, [2 ** 31]])
      await assert.rejects(model.initKey(shape, 1, 0), throwsCode("BAD_ARGUMENT", /a shape is a list of whole numbers/));
    await assert.rejects(model.initKey([3, 2], 0, 1), throwsCode("SPEC_MISMATCH", /key 0 has shape \[2, 3\], not \[3, 2\]/));
    for (const key of [-1, 0.5, 2 ** 31])
      await assert.rejects(model.initKey([1], key, 0), throwsCode("BAD_ARGUMENT", /a key is a whole number/));
  });

  test("init twice, without devices, with one twice or below 0; setParam after it; calls before it", async () => {
    const model = createSharedModel("local");
    assert.throws(() => model.push(new Float32Array(1), 0, 0), throwsCode("BAD_ARGUMENT", /call init first/));
    for (const devices of [[], [0, 1, 0], [-1], [0.5], "0" as never, Array.from({ length: 65 }, (_, i) => i)])
      await assert.rejects(model.init(devices), throwsCode("BAD_ARGUMENT"));
    await model.init();
    assert.deepEqual(model.devices, [0]);
    await assert.rejects(model.init([0]), throwsCode("BAD_ARGUMENT", /init is called once/));
    assert.throws(() => model.setParam("reduce_thread", 2), throwsCode("BAD_ARGUMENT", /comes before init/));
    await model.close();
    await model.close();
    assert.throws(() => model.push(new Float32Array(1), 0, 0), throwsCode("CLOSED"));
  });

  test("every option of mshadow-ps is there, and has values that cannot be", async () => {
    const options: Readonly<Record<string, readonly [good: readonly (string | number)[], bad: string]>> = {
      update_on_server: [[0, 1], "2"],
      test_on_server: [[0, 1], "on"],
      "push_op[3]": [["sum", "gather"], "mean"],
      reduce_thread: [[1, 8], "-1"],
      bigarray_bound: [[1, 1_000_000], "0.5"],
      use_pin_memory: [[0, 1], ""],
      push_thread: [["ndev", "one"], "two"],
      pull_thread: [["ndev", "one"], "all"],
    };
    const model = createSharedModel("local");
    for (const [name, [good, bad]] of Object.entries(options)) {
      for (const value of good) model.setParam(name, value);
      assert.throws(
        () => model.setParam(name, bad),
        throwsCode("BAD_ARGUMENT", name.startsWith("push_op") ? /push_op\[3\]/ : RegExp(name)),
      );
    }
    model.setParam("update_on_server", 0);
    await model.init([0]);
    await model.close();
  });

  test("an option that nobody knows, with the nearest; a value that cannot be", async () => {
    const model = createSharedModel("local");
    assert.throws(() => model.setParam("reduce_threads", 2), throwsCode("BAD_ARGUMENT", /did you mean reduce_thread\?/));
    assert.throws(() => model.setParam("push_op[x]", "sum"), throwsCode("BAD_ARGUMENT", /a key is a whole number/));
    assert.throws(() => model.setParam("push_op[0]", "sun"), throwsCode("BAD_ARGUMENT", /sum or gather, not "sun"; did you mean sum\?/));
    assert.throws(() => model.setParam("reduce_thread", "0"), throwsCode("BAD_ARGUMENT", /whole number from 1 up/));
    assert.throws(() => model.setParam("use_pin_memory", "yes"), throwsCode("BAD_ARGUMENT", /0 or 1/));
    for (const name of ["msg:anything", "use_pin_memory", "update_on_server"]) model.setParam(name, "1");
    await assert.rejects(model.init([0]), throwsCode("BAD_ARGUMENT", /update_on_server needs the option updater/));
    const withUpdater = createSharedModel("local", { updater: new CountingSgd() as Updater });
    withUpdater.setParam("eta", 1);
    assert.throws(() => withUpdater.setParam("bigarray_bond", 1), throwsCode("BAD_ARGUMENT", /did you mean bigarray_bound\?/));
    assert.throws(() => createSharedModel("local", { dtyp: "f32" } as never), throwsCode("BAD_ARGUMENT", /did you mean dtype\?/));
    for (const options of [
      { dtype: "f16" },
      { device: "tpu" },
      { onDeviceLoss: "go" },
      { updater: { type: "sdg" } },
      { updater: {} },
      { trace: 1 },
    ])
      assert.throws(() => createSharedModel("local", options as never), throwsCode("BAD_ARGUMENT"));
    assert.throws(() => createSharedModel("remote" as never), throwsCode("BAD_ARGUMENT", /did you mean/));
    assert.throws(
      () => createSharedModel("local", { updater: { type: "adam" }, dtype: "i64" }),
      throwsCode("BAD_ARGUMENT", /optimizer adam is not for rows of i64; there are sum, assign, min, max, or an updater of your own/),
    );
    assert.throws(
      () => createSharedModel("local", { updater: { type: "sum" }, dtype: "i64", initialWeight: 0.5 }),
      throwsCode("BAD_ARGUMENT", /whole number/),
    );
  });
});

suite("waits end", () => {
  test("with a deadline, with a signal, and when the model closes", async () => {
    const model = await openModel([0, 1], { 0: [1] });
    const data = new Float32Array(1);
    model.push(data, 0, 0);
    model.pullReq(data, 0, 0);
    await assert.rejects(model.pullWait(0, 0, { timeoutMs: 1 }), throwsCode("DEADLINE", /pull of key 0 by device 0/));
    await assert.rejects(model.pullWait(0, 0, { signal: AbortSignal.abort() }), throwsCode("ABORTED"));
    await assert.rejects(model.pullWaitAll(0, { timeoutMs: 1 }), throwsCode("DEADLINE", /all pulls by device 0/));
    await assert.rejects(model.pullWaitAll(0, { signal: AbortSignal.abort() }), throwsCode("ABORTED"));
    const waits = [model.pullWait(0, 0), model.pullWaitAll(0)];
    await model.close();
    for (const wait of [...waits, model.init([0])]) await assert.rejects(wait, throwsCode("CLOSED"));
  });

  test("init too: an updater that never begins", async () => {
    const updater: Updater = { initUpdater: async () => await new Promise<void>(() => {}), initModel: () => {}, update: () => {} };
    const model = createSharedModel("local", { updater });
    await assert.rejects(model.init([0], { timeoutMs: 1 }), throwsCode("DEADLINE", /init of the shared model/));
    await assert.rejects(model.init([0], { signal: AbortSignal.abort() }), throwsCode("ABORTED"));
    await model.close();
  });
});

suite("a device that ends", () => {
  test("fails the pulls of those that wait for it, with its name, and whether the model goes on; it does not, unless told", async () => {
    await using model = await openModel([4, 5, 6], { 0: [1], 1: [1] });
    const data = [new Float32Array(1), new Float32Array(1)];
    for (const device of [4, 5, 6]) model.push(new Float32Array([1]), 1, device);
    for (const device of [4, 5]) model.push(new Float32Array([1]), 0, device);
    model.pullReq(data[0]!, 0, 4);
    model.pullReq(data[1]!, 1, 4);
    model.removeDevice(6, new Error("it fell over"));
    const thrown = await model.pullWait(0, 4).then(
      () => undefined,
      (failure: unknown) => failure,
    );
    assert.ok(isWeighbridgeError(thrown, "NODE_DEAD"));
    assert.match(thrown.message, /device 6 has ended: it fell over; the model does not go on without it/);
    assert.deepEqual(thrown.detail, { device: 6, goesOn: false });
    await model.pullWait(1, 4);
    assert.deepEqual([...data[1]!], [3], "a round that was complete is whole");
    assert.throws(() => model.push(data[0]!, 0, 5), throwsCode("NODE_DEAD", /device 6/));
    assert.throws(() => model.pullReq(data[0]!, 0, 6), throwsCode("NODE_DEAD", /device 6/));
    assert.deepEqual(model.devices, [4, 5]);
  });

  test("is not waited for any more in a model that continues: its round fails once, and what was pushed is pushed again", async () => {
    await using model = await openModel([4, 5, 6], { 0: [1] }, { onDeviceLoss: "continue" });
    const data = new Float32Array([1]);
    model.push(data, 0, 4);
    model.pullReq(data, 0, 4);
    model.removeDevice(6);
    await assert.rejects(model.pullWait(0, 4), throwsCode("NODE_DEAD", /device 6 has ended: it was removed; the model goes on without it/));
    for (let round = 0; round < 3; round++) {
      for (const device of [4, 5]) model.push(new Float32Array([device]), 0, device);
      for (const device of [4, 5]) model.pullReq(data, 0, device);
      for (const device of [4, 5]) await model.pullWait(0, device);
      assert.equal(data[0], 9);
    }
  });

  test("leaves rounds alone that nobody else has pushed to", async () => {
    await using model = await openModel([0, 1, 2], { 0: [1] }, { onDeviceLoss: "continue" });
    model.push(new Float32Array([100]), 0, 2);
    model.removeDevice(2);
    const data = new Float32Array([1]);
    for (const device of [0, 1]) model.push(data, 0, device);
    model.pullReq(data, 0, 0);
    await model.pullWait(0, 0);
    assert.equal(data[0], 2, "what it pushed to the round is dropped");
  });
});

test("setWeight and checkWeight: the weights of a key, within 1e-5; only with test_on_server", async () => {
  await using model = await openModel([0], { 0: [2] }, { updater: { type: "sgd", learningRate: 1 }, params: { test_on_server: 1 } });
  await model.setWeight(new Float32Array([4, 5]), 0, 0);
  await model.checkWeight(new Float32Array([4, 5.00001]), 0, 0);
  await assert.rejects(
    model.checkWeight(new Float32Array([4, 5.1]), 0, 0),
    throwsCode("SPEC_MISMATCH", /key 0 has 5 at 1 where device 0 has 5.09/),
  );
  model.push(new Float32Array([1, 1]), 0, 0);
  const data = new Float32Array(2);
  model.pullReq(data, 0, 0);
  await model.pullWait(0, 0);
  assert.deepEqual([...data], [3, 4]);
  await using other = await openModel([0], { 0: [2] });
  await assert.rejects(other.checkWeight(data, 0, 0), throwsCode("BAD_ARGUMENT", /test_on_server/));
  await assert.rejects(other.setWeight(data, 0, 0), throwsCode("UNSUPPORTED", /has no weights/));
});

suite("what the model tells of itself", () => {
  /** Two devices, two keys, three rounds, with an updater of the user's. */
  async function train(options: SharedModelOptions): Promise<SharedModel<Float32Array>> {
    const updater: Updater<"f32"> = { initModel: () => {}, update: (_, weights, gradient) => weights.set(gradient) };
    const model = await openModel([3, 4], { 7: [4], 8: [4] }, { updater: updater as Updater, ...options });
    for (let round = 0; round < 3; round++) {
      for (const device of [3, 4]) {
        for (const key of [7, 8]) model.push(new Float32Array(4), key, device);
        for (const key of [7, 8]) model.pullReq(new Float32Array(4), key, device);
      }
      for (const device of [3, 4]) for (const key of [7, 8]) await model.pullWait(key, device);
    }
    return model;
  }

  test("stats: pushes, pulls and times of each device, rounds and times of each key", async () => {
    await using model = await train({});
    const { devices, keys } = model.stats();
    assert.deepEqual(
      devices.map(({ device, isLive, pushes, pulls }) => ({ device, isLive, pushes, pulls })),
      [3, 4].map((device) => ({ device, isLive: true, pushes: 6, pulls: 6 })),
    );
    assert.deepEqual(
      keys.map(({ key, rounds }) => [key, rounds]),
      [
        [7, 3],
        [8, 3],
      ],
    );
    for (const { reduceMs, handOutMs, exchangeMs } of keys) for (const ms of [reduceMs, handOutMs, exchangeMs]) assert.ok(ms >= 0);
    assert.ok(devices[0]!.waitMs > 0 && devices[0]!.computeMs > 0);
    assert.throws(() => model.trace(), throwsCode("BAD_ARGUMENT", /trace: true/));
  });

  test("trace: computation and synchronisation of each key and device on one time line, in a file that Chrome reads", async () => {
    const traceFile = join(temporaryDirectory("trace"), "trace.json");
    const model = await train({ traceFile });
    await model.close();
    const { traceEvents } = JSON.parse(readFileSync(traceFile, "utf8")) as ChromeTrace;
    const spans = traceEvents.filter(({ ph }) => ph === "X");
    const names = new Map(traceEvents.filter(({ ph }) => ph === "M").map(({ tid, args }) => [tid, args.name]));
    const lines = new Set(spans.map(({ name, tid }) => `${names.get(tid)}: ${name.replace(/ key \d+/, "")}`));
    for (const device of [3, 4])
      for (const kind of ["push", "hand out"]) assert.ok(lines.has(`device ${device}: ${kind}`), `${device} ${kind}`);
    for (const line of ["device 3: compute", "device 3: wait", "reduces of the owner: reduce", "level 2, key 8: exchange"])
      assert.ok(lines.has(line), line);
    assert.equal(spans.filter(({ name }) => name === "reduce key 8").length, 3);
    for (const { name, cat, ts, dur } of spans) {
      assert.ok((ts as number) > 0 && (dur as number) >= 0);
      assert.equal(cat, name.startsWith("compute") ? "computation" : "synchronisation");
    }
  });
});
