// Goal: devices that are threads of the system share one model: the same bits everywhere, round after round, whoever
// sums; and when one of them ends, the others are told which, and whether the model goes on.

import assert from "node:assert/strict";
import { once } from "node:events";
import { suite, test } from "node:test";
import type { Worker } from "node:worker_threads";
import { createSharedModel, type SharedModel, type SharedModelOptions, startDeviceThread } from "weighbridge/shared-model";
import type { DeviceTask } from "../../test/support/model-device.ts";
import { digestOf, pushedValue, sumOf } from "../../test/support/model-values.ts";
import { throwsCode } from "../testing/throws-code.ts";

const DEVICE = new URL("../../test/support/model-device.ts", import.meta.url);

function startDevice(model: SharedModel<Float32Array>, device: number, task: Partial<DeviceTask>): Worker {
  const workerData: DeviceTask = {
    rounds: 3,
    lengths: [8],
    isOwn: true,
    failure: "none",
    failsAt: 1,
    retries: false,
    ...task,
  };
  return startDeviceThread(model, device, DEVICE, { workerData });
}

async function openModel(devices: readonly number[], options: SharedModelOptions<"f32"> = {}): Promise<SharedModel<Float32Array>> {
  const model = createSharedModel("local", options);
  model.setParam("bigarray_bound", 10_000);
  await model.init(devices);
  return model;
}

/** What a thread posts. */
async function said(thread: Worker): Promise<unknown> {
  const [message] = (await once(thread, "message")) as [unknown];
  return message;
}

async function ended(threads: readonly Worker[]): Promise<void> {
  await Promise.all(threads.map(async (thread) => await new Promise((resolve) => void thread.once("exit", resolve))));
}

suite("threads that run devices", () => {
  test("hold the same bits in each of 100 rounds, of small keys and of large ones that all of them sum, and end by themselves", async () => {
    const devices = [0, 1, 2, 3];
    const lengths = [10, 300_001];
    const model = await openModel(devices, { trace: true });
    const threads = devices.map((device) => startDevice(model, device, { rounds: 100, lengths }));
    const exits = ended(threads);
    const held = await Promise.all(threads.map(said));
    await exits;
    const expected = (round: number): number => digestOf(lengths.map((length, key) => sumOf(devices, round, key, length)));
    for (const [device, digests] of (held as number[][]).entries()) {
      assert.equal(digests.length, 100);
      assert.deepEqual(digests, held[0], `device ${device}`);
    }
    for (const round of [0, 1, 50, 99]) assert.equal((held[0] as number[])[round], expected(round), `round ${round}`);
    assert.deepEqual(
      model.stats().keys.map(({ rounds }) => rounds),
      [100, 100],
    );
    const reducers = new Set(
      model
        .trace()
        .traceEvents.filter(({ name, ph }) => ph === "X" && name === "reduce key 1")
        .map(({ tid }) => tid),
    );
    assert.ok(reducers.size > 1, "more than one thread reduced the large key");
    await model.close();
  });

  test("stand beside a device of the owner's, with arrays of their own", async () => {
    const model = await openModel([3, 1]);
    const lengths = [20_000, 3];
    const thread = startDevice(model, 1, { rounds: 5, lengths, isOwn: false });
    const exit = ended([thread]);
    const answer = said(thread);
    const data = lengths.map((length) => new Float32Array(length));
    for (const [key, length] of lengths.entries()) await model.initKey([length], key, 3);
    for (let round = 0; round < 5; round++) {
      for (const [key, each] of data.entries()) {
        for (let i = 0; i < each.length; i++) each[i] = pushedValue(3, round, i + key);
        model.push(each, key, 3);
        model.pullReq(each, key, 3);
      }
      for (const key of data.keys()) await model.pullWait(key, 3);
      assert.equal(digestOf(data), digestOf(lengths.map((length, key) => sumOf([3, 1], round, key, length))));
    }
    assert.equal(((await answer) as number[])[4], digestOf(data));
    await exit;
    await model.close();
  });

  for (const [failure, reason] of [
    ["throw", /device 2 has ended: the device fell over; the model does not go on without it/],
    ["exit", /device 2 has ended: its thread exited with code 7; the model does not/],
    ["stop", /device 2 has ended: its thread exited with code 1; the model does not/],
  ] as const) {
    test(`fail the pulls of the others with its number when one of them does: ${failure}`, async () => {
      const model = await openModel([0, 1, 2]);
      const threads = [0, 1, 2].map((device) =>
        startDevice(model, device, { lengths: [8, 20_000], failure: device === 2 ? failure : "none" }),
      );
      const exits = ended(threads);
      const answers = Promise.all(threads.slice(0, 2).map(said));
      if (failure === "stop") {
        assert.equal(await said(threads[2]!), "stopped");
        await threads[2]!.terminate();
      }
      for (const answer of (await answers) as { readonly code: string; readonly message: string; readonly detail: unknown }[]) {
        assert.equal(answer.code, "NODE_DEAD");
        assert.match(answer.message, reason);
        assert.deepEqual(answer.detail, { device: 2, goesOn: false });
      }
      await exits;
      await model.close();
    });
  }

  test("go on without one that is terminated while they wait for it, if told to: a round fails, and the rest have two devices", async () => {
    const devices = [0, 1, 2];
    const lengths = [400_000, 10];
    for (let attempt = 0; attempt < 4; attempt++) {
      const model = await openModel(devices, { onDeviceLoss: "continue" });
      const threads = devices.map((device) =>
        startDevice(model, device, { rounds: 12, lengths, retries: true, failure: device === 2 ? "stop" : "none", failsAt: 2 + attempt }),
      );
      const exits = ended(threads);
      const answers = Promise.all(threads.slice(0, 2).map(said));
      assert.equal(await said(threads[2]!), "stopped");
      await threads[2]!.terminate();
      const [one, other] = (await answers) as [number[], number[]];
      assert.deepEqual(one, other);
      assert.equal(one[11], digestOf(lengths.map((length, key) => sumOf([0, 1], 11, key, length))));
      await exits;
      assert.deepEqual(
        model.stats().devices.map(({ isLive }) => isLive),
        [false, false, false],
        "all have ended by now",
      );
      await model.close();
    }
  });

  test("end with CLOSED when the model closes in the middle of a round", async () => {
    const model = await openModel([0, 1]);
    const [waiting, stopped] = [startDevice(model, 0, {}), startDevice(model, 1, { failure: "stop", failsAt: 0 })];
    const exit = ended([waiting]);
    const answer = said(waiting);
    await said(stopped);
    await model.close();
    assert.equal(((await answer) as { readonly code: string }).code, "CLOSED");
    await exit;
    await stopped.terminate();
  });

  test("are refused for a device that there is not, that has one, or whose model is another thread's", async () => {
    const model = await openModel([0]);
    assert.throws(() => startDevice(model, 1, {}), throwsCode("BAD_ARGUMENT", /device 1: the devices are 0/));
    assert.throws(
      () => startDevice({} as SharedModel<Float32Array>, 0, {}),
      throwsCode("BAD_ARGUMENT", /takes a model that createSharedModel/),
    );
    const thread = startDevice(model, 0, { rounds: 1 });
    assert.throws(() => startDevice(model, 0, {}), throwsCode("BAD_ARGUMENT", /device 0 has a thread already/));
    assert.throws(() => model.push(new Float32Array(8), 0, 0), throwsCode("BAD_ARGUMENT", /device 0: another thread runs it/));
    await ended([thread]);
    await model.close();
  });
});
