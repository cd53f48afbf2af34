// Functions that treat their server badly.

import { type PsFunction, psFunction } from "weighbridge";

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
