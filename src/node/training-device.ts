// training-device — the script of a thread that training-devices.ts starts: it computes for one device of a training.

import { parentPort, workerData } from "node:worker_threads";
import { runDevice, type TrainingGrant } from "../faces/training/devices/device-loop.ts";
import { realClock } from "./real-clock.ts";
import { timeline } from "./shared-model-threads.ts";

await runDevice(workerData as TrainingGrant, { clock: realClock(), timeline, ready: () => parentPort?.postMessage("ready") });
