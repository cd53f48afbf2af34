// node-sessions — what sessions stand on in a Node process: handed to a worker by the roots that open sessions.

import { type SessionsGround, WorkerSessions } from "../worker/worker-sessions.ts";
import { zstd } from "./zstd.ts";

export function nodeSessions(ground: SessionsGround): WorkerSessions {
  return new WorkerSessions(ground, { compression: zstd() });
}
