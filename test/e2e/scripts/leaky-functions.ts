// Functions that treat their server badly.

import { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { type PsFunction, psFunction, workerFunction } from "weighbridge";

const fields = { request: { word: "string" }, response: { word: "string" } } as const;

/** Throws something that has no text. */
export const textless: PsFunction<typeof fields.request, typeof fields.response> = psFunction({
  name: "textless",
  ...fields,
  handler: async () => {
    await Promise.resolve();
    throw Object.create(null);
  },
});

/** Starts something that fails later, and does not wait for it. */
export const leaky: PsFunction<typeof fields.request, typeof fields.response> = psFunction({
  name: "leaky",
  ...fields,
  handler: (_, { word }) => {
    void new Promise((_resolve, reject) => setTimeout(() => reject(new Error(`about ${word}`)), 1));
    return { word };
  },
});

const nothing = workerFunction({ name: "nothing", request: {}, response: {} });

/** The write of its call to the worker fails in the server's own code. */
export const fatal: PsFunction<typeof fields.request, typeof fields.response> = psFunction({
  name: "fatal",
  ...fields,
  handler: async ({ worker, workers }, { word }) => {
    await sleep(1);
    Object.defineProperty(Socket.prototype, "writableLength", {
      configurable: true,
      get() {
        delete (Socket.prototype as { writableLength?: number }).writableLength;
        throw new Error("a fault of the server");
      },
    });
    await workers.call(worker, nothing, {}).catch(() => {});
    return { word };
  },
});
