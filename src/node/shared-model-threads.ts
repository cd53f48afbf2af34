// shared-model-threads — threads of the system (worker_threads) that run devices of a shared model. Here they are
// started and watched; what they share, and how, is engine.

import { MessageChannel, type MessagePort, Worker, type WorkerOptions, workerData } from "node:worker_threads";
import { badArgument } from "../base/errors.ts";
import { type DeviceGrant, DeviceThread } from "../faces/shared-model/device-thread.ts";
import { OwnerModel } from "../faces/shared-model/owner-model.ts";
import type { DeviceModel, SharedModel } from "../faces/shared-model/shared-model.ts";
import type { RowArrays, RowElement } from "../kernel/row-element.ts";
import type { ThreadPort } from "../worker/tables/thread-line.ts";
import { realClock } from "./real-clock.ts";

/** Under this name a thread finds what it was given in its workerData. */
const GIVEN = "weighbridgeDevice";

/** What Node's Worker takes. */
export type DeviceThreadStart = WorkerOptions;

type Given = { readonly grant: DeviceGrant; readonly port: MessagePort };

/**
 * Starts a thread that runs a device of the model: `module` calls `attachDevice`. Others do not wait for the device any
 * more once the thread has ended, however it ended: their pulls fail with its number if it had yet to push. Throws
 * BAD_ARGUMENT for a device that the model has not, or that has a thread.
 */
export function startDeviceThread<Data extends object>(
  model: SharedModel<Data>,
  device: number,
  module: URL | string,
  worker: DeviceThreadStart = {},
): Worker {
  if (!(model instanceof OwnerModel)) throw badArgument("startDeviceThread() takes a model that createSharedModel() made in this thread");
  const { port1, port2 } = new MessageChannel();
  const { grant, ended } = model.openThread(device, port1 as unknown as ThreadPort);
  port1.unref(); // the thread itself keeps the process alive
  const given: Given = { grant, port: port2 };
  const thread = new Worker(module, {
    ...worker,
    workerData: { ...(worker.workerData as object | undefined), [GIVEN]: given },
    transferList: [...(worker.transferList ?? []), port2],
  });
  let reason: unknown;
  thread.once("error", (thrown) => {
    reason = thrown;
  });
  thread.once("exit", (code) => ended(reason ?? `its thread exited with code ${code}`));
  return thread;
}

/** In a thread that `startDeviceThread` started: the model, for the device that it runs. `E` is the model's dtype. */
export function attachDevice<E extends RowElement = "f32">(): DeviceModel<RowArrays[E]> {
  const given = (workerData as Readonly<Record<string, Given | undefined>> | null)?.[GIVEN];
  if (given === undefined) throw badArgument("attachDevice() works only in a thread that startDeviceThread() started");
  const { grant, port } = given;
  return new DeviceThread(grant, {
    ...{ port: port as unknown as ThreadPort, clock: realClock(), timeline },
    keepAlive: (isNeeded) => (isNeeded ? port.ref() : port.unref()),
  }) as unknown as DeviceModel<RowArrays[E]>;
}

/** Of this thread, on the clock that all threads of the process have. */
const ORIGIN_MS = performance.timeOrigin;

/** Of all threads of a process the same. */
export function timeline(): number {
  return ORIGIN_MS + performance.now();
}
