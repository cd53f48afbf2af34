// training-devices — a Model whose devices are threads of the system (worker_threads). Here they are started and
// watched; what they share, and how, is in faces/training/devices.

import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import type { Log, Logger } from "../base/log.ts";
import type { TrainingGrant } from "../faces/training/devices/device-loop.ts";
import type { DeviceStarter } from "../faces/training/devices/training-devices.ts";
import { Model as FaceModel, type ModelOptions } from "../faces/training/model.ts";
import type { Network } from "../faces/training/network.ts";
import { modulePath } from "./launcher/job-plan.ts";
import { checkLogger, defaultLevelOf, loggerLog } from "./logger-log.ts";
import { realClock } from "./real-clock.ts";
import { timeline } from "./shared-model-threads.ts";

const STARTER: DeviceStarter = { clock: realClock(), timeline, coreCount: availableParallelism(), start };

function start(grant: TrainingGrant, on: Parameters<DeviceStarter["start"]>[1]): ReturnType<DeviceStarter["start"]> {
  const thread = new Worker(modulePath(import.meta.url, "./training-device"), { workerData: grant });
  let reason: unknown;
  thread.once("message", on.ready); // it says nothing else
  thread.once("error", (thrown) => {
    reason = thrown;
  });
  thread.once("exit", (code) => on.ended(reason ?? `its thread exited with code ${code}`));
  return {
    stop: async () => {
      await thread.terminate();
    },
  };
}

function logOf(logger: Logger, who: () => string): Log {
  checkLogger(logger);
  return loggerLog(logger, { level: defaultLevelOf(logger), who });
}

/** A network with its loss and its optimizer, to be trained, evaluated and asked (MindSpore: Model). */
export class Model extends FaceModel {
  /** Gives the network's parameters their first values. Throws BAD_ARGUMENT. */
  constructor(network: Network, options: ModelOptions) {
    super(network, options, { deviceStarter: STARTER, logOf });
  }
}
