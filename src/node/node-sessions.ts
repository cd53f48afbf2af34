// node-sessions — what sessions stand on in a Node process: handed to a worker by the roots that open sessions.

import { type ServicesGround, WorkerServices } from "../worker/worker-services.ts";
import { zstd } from "./zstd.ts";

export function nodeSessions(ground: ServicesGround): WorkerServices {
  return new WorkerServices(ground, { compression: zstd() });
}
