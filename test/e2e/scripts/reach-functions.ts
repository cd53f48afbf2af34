// Functions for reach.ts: a server passes calls on to workers. `processOf` and `stall` are served by every worker that
// loads this module.

import { type PsFunction, psFunction, type WorkerFunction, workerFunction } from "weighbridge";

type None = Record<never, never>;
type Process = { readonly pid: "u32" };
const PROCESS: Process = { pid: "u32" };
const TO = { worker: "u32" } as const;
type To = typeof TO;

export const processOf: WorkerFunction<None, Process> = workerFunction({
  ...{ name: "processOf", request: {}, response: PROCESS, reads: true },
  handler: () => ({ pid: process.pid }),
});
/** Never answers. */
export const stall: WorkerFunction<None, None> = workerFunction({
  ...{ name: "stall", request: {}, response: {} },
  handler: () => new Promise(() => {}),
});
export const end: WorkerFunction<None, None> = workerFunction({ name: "end", request: {}, response: {} });

export const reach: PsFunction<To, Process> = psFunction({
  ...{ name: "reach", request: TO, response: PROCESS },
  handler: ({ workers }, { worker }) => workers.call(worker, processOf, {}),
});
export const wait: PsFunction<To, None> = psFunction({
  ...{ name: "wait", request: TO, response: {} },
  handler: ({ workers }, { worker }) => workers.call(worker, stall, {}),
});
export const finish: PsFunction<To, None> = psFunction({
  ...{ name: "finish", request: TO, response: {} },
  handler: ({ workers }, { worker }) => workers.call(worker, end, {}),
});
