// session-services — what sessions of tests need. Everything is loaded beforehand: a simulation waits for nothing that
// its clock does not know.

import { CachedEmbedding } from "../worker/cache/cached-embedding.ts";
import { Collective } from "../worker/collective.ts";
import { type ServicesGround, WorkerServices, type WorkerServicesOptions } from "../worker/worker-services.ts";

export function sessionServices(ground: ServicesGround, { compression }: Pick<WorkerServicesOptions, "compression"> = {}): WorkerServices {
  return new WorkerServices(ground, {
    ...(compression === undefined ? {} : { compression }),
    openCollective: Collective.open,
    loadCaches: async () => await Promise.resolve(CachedEmbedding.open),
  });
}
