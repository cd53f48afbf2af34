// node-sessions — what sessions need in a Node process: the roots that open sessions pass it to their worker.

import { type ServicesGround, WorkerServices } from "../worker/worker-services.ts";
import { zstd } from "./zstd.ts";

export function nodeSessions(ground: ServicesGround): WorkerServices {
  return new WorkerServices(ground, { compression: zstd() });
}
