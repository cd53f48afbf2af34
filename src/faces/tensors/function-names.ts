// function-names — maps our functions to Hetu's, so that loads are reported under its names.

import type { FunctionLoad } from "../../worker/router/function-request.ts";

/** The name under which the bytes of a call that joins an SSP group are counted. */
export const SSP_INIT = "wb/ssp/init";

/** Ours to Hetu's. A function that Hetu lacks keeps its own name. */
const HETU_NAMES: Readonly<Record<string, string>> = {
  "wb/tensor/push": "DensePush",
  "wb/tensor/pull": "DensePull",
  "wb/tensor/push-pull": "DDPushPull",
  "wb/tensor/push-rows": "SparsePush",
  "wb/tensor/pull-rows": "SparsePull",
  "wb/tensor/push-rows-pull": "SDPushPull",
  "wb/tensor/push-pull-rows": "SSPushPull",
  "wb/rows/push": "SparsePush",
  "wb/rows/pull": "SparsePull",
  "wb/rows/push-pull": "SSPushPull",
  "wb/parameter/create": "ParamInit",
  "wb/parameter/clear": "ParamClear",
  "wb/parameter/save": "ParamSave",
  "wb/parameter/load/stage": "ParamLoad",
  "wb/parameter/load/replace": "ParamLoad",
  "wb/parameter/load/unstage": "ParamLoad",
  "wb/cache/sync": "SyncEmbedding",
  "wb/cache/push": "PushEmbedding",
  "wb/cache/push-sync": "PushSyncEmbedding",
  [SSP_INIT]: "SSPInit",
  "wb/ssp/sync": "SSPSync",
  "wb/partial-reduce/partners": "PReduceGetPartner",
  "wb/data/push": "PushData",
  "wb/data/pull": "PullData",
};

/** The loads under Hetu's names; functions that share a name are added up. */
export function hetuLoads(loads: ReadonlyMap<string, Readonly<FunctionLoad>>): ReadonlyMap<string, Readonly<FunctionLoad>> {
  const named = new Map<string, FunctionLoad>();
  for (const [name, { sentBytes, receivedBytes }] of loads) {
    const key = HETU_NAMES[name] ?? name;
    const sum = named.get(key) ?? { sentBytes: 0, receivedBytes: 0 };
    named.set(key, { sentBytes: sum.sentBytes + sentBytes, receivedBytes: sum.receivedBytes + receivedBytes });
  }
  return named;
}
