// Goal: what a device's thread asks the owner for ends, whatever happens: by its deadline, its signal, and when the
// device has left. Owner and device are in one thread here, over a port that may be silent.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SimClock } from "../../testing/sim-clock.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import type { ThreadPort } from "../../worker/tables/thread-line.ts";
import { DeviceThread } from "./device-thread.ts";
import { OwnerModel } from "./owner-model.ts";

/** Two ends of a line whose messages arrive in the next turn, unless it is silent. */
function line(): { readonly ends: readonly [ThreadPort, ThreadPort]; setSilent(isSilent: boolean): void } {
  let isSilent = false;
  const end = (): ThreadPort => ({ postMessage: () => {}, onmessage: null, close: () => {} });
  const ends = [end(), end()] as const;
  for (const [i, from] of ends.entries())
    from.postMessage = (data) => {
      if (!isSilent) queueMicrotask(() => ends[1 - i]?.onmessage?.({ data }));
    };
  const setSilent = (silent: boolean): void => {
    isSilent = silent;
  };
  return { ends, setSilent };
}

async function openDevice(): Promise<{
  readonly model: OwnerModel<Float32Array>;
  readonly device: DeviceThread;
  readonly clock: SimClock;
  setSilent(isSilent: boolean): void;
}> {
  const clock = new SimClock();
  const parts = { clock, timeline: () => clock.nowMs() };
  const model = new OwnerModel<Float32Array>("local", { updater: { type: "sgd" } }, parts);
  await model.init([4]);
  const { ends, setSilent } = line();
  const { grant } = model.openThread(4, ends[0]);
  return { model, device: new DeviceThread(grant, { ...parts, port: ends[1], keepAlive: () => {} }), clock, setSilent };
}

const wait = { timeoutMs: 50 };
const aborted = { signal: AbortSignal.abort() };

test("initKey and setWeight of a device end by deadline and signal", async () => {
  const { model, device, clock, setSilent } = await openDevice();
  await clock.runUntil(device.initKey([2], 0, 4, wait));
  setSilent(true);
  await assert.rejects(clock.runUntil(device.initKey([2], 1, 4, wait)), throwsCode("DEADLINE", /50 ms for key 1/));
  await assert.rejects(device.initKey([2], 1, 4, aborted), throwsCode("ABORTED"));
  await assert.rejects(
    clock.runUntil(device.setWeight(new Float32Array(2), 0, 4, wait)),
    throwsCode("DEADLINE", /50 ms for the weights of key 0/),
  );
  await assert.rejects(device.initKey([2], 1, 4, { deadline: 1 } as never), throwsCode("BAD_ARGUMENT", /timeoutMs/));
  setSilent(false);
  await clock.runUntil(device.setWeight(new Float32Array(2), 0, 4));
  await model.close();
});

test("a device that has left rejects what it has asked for, and what it asks for later; all may be closed twice", async () => {
  const { model, device, clock, setSilent } = await openDevice();
  setSilent(true);
  const asked = device.initKey([2], 0, 4);
  setSilent(false);
  await device.close();
  await assert.rejects(asked, throwsCode("CLOSED", /has left/));
  await assert.rejects(device.initKey([2], 0, 4), throwsCode("CLOSED", /has left/));
  await device.close();
  await clock.run();
  assert.deepEqual(model.devices, []);
  await Promise.all([model.close(), model.close()]);
});

test("initKey of the owner ends by deadline and signal: an updater that never answers", async () => {
  const never = async (): Promise<void> => await new Promise<void>(() => {});
  const clock = new SimClock();
  const updater = { initModel: never, update: never };
  const model = new OwnerModel<Float32Array>("local", { updater }, { clock, timeline: () => clock.nowMs() });
  await model.init([0]);
  await assert.rejects(clock.runUntil(model.initKey([1], 0, 0, wait)), throwsCode("DEADLINE", /50 ms for key 0/));
  await assert.rejects(model.initKey([1], 0, 0, aborted), throwsCode("ABORTED"));
  await model.close();
});
