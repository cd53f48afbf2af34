// node-sessions — what sessions need in a Node process: the roots that open sessions pass it to their worker.

import type { LoadedOnDemand } from "../worker/parameter-engine.ts";
import { type ServicesGround, WorkerServices } from "../worker/worker-services.ts";
import { zstd } from "./zstd.ts";

export function nodeSessions(ground: ServicesGround): WorkerServices {
  return new WorkerServices(ground, { compression: zstd(), ...ON_DEMAND });
}

const ON_DEMAND: LoadedOnDemand = {
  openCollective: async (mesh, wait) => await (await import("../worker/collective.ts")).Collective.open(mesh, wait),
  loadCaches: async () => (await import("../worker/cache/cached-embedding.ts")).CachedEmbedding.open,
};
