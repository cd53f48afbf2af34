// data — arrays of any length by index, beside the parameters: features that workers leave for each other (Hetu:
// PushData, PullData). A push to an index that is there adds to it, as it does in Hetu; one of another length is an
// error.

import { type Contract, contract } from "./contract.ts";

const arrays = { indexes: "u64[]", lengths: "u32[]", values: "f32[]" } as const;
const indexes = { indexes: "u64[]" } as const;
const found = { lengths: "u32[]", values: "f32[]" } as const;
const nothing = {} as const;

/** A worker's reads of data follow its own pushes of data, as those of a parameter do; no parameter has this number. */
export const DATA_SCOPE: number = 2 ** 32 - 1;

export const dataPush: Contract<typeof arrays, typeof nothing> = contract({
  name: "wb/data/push",
  target: "part",
  effect: "update",
  request: arrays,
  response: nothing,
});

export const dataPull: Contract<typeof indexes, typeof found> = contract({
  name: "wb/data/pull",
  target: "part",
  effect: "read",
  request: indexes,
  response: found,
});
