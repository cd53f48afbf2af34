// node-sessions — what sessions need in a Node process: the roots that open sessions pass it to their worker.

import type { OpenCollective } from "../worker/parameter-engine.ts";
import { type ServicesGround, WorkerServices } from "../worker/worker-services.ts";
import { zstd } from "./zstd.ts";

export function nodeSessions(ground: ServicesGround): WorkerServices {
  return new WorkerServices(ground, { compression: zstd(), openCollective });
}

/** Few sessions have a collective: it is loaded when one opens it. */
const openCollective: OpenCollective = async (mesh, wait) => await (await import("../worker/collective.ts")).Collective.open(mesh, wait);
