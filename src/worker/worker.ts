// worker — a worker's engine: its router, and what its sessions stand on where a root gave it that. The faces above it decide what to ask; the servers own the state.

import type { Clock } from "../base/clock.ts";
import type { Membership } from "../cluster/membership.ts";
import { checkSender } from "../cluster/scheduler-news.ts";
import { PREPARE } from "../contracts/control.ts";
import { serveJson } from "../peer/call-function.ts";
import type { Peer } from "../peer/peer.ts";
import { Router } from "./router.ts";
import type { SessionsGround, WorkerSessions } from "./worker-sessions.ts";

export type WorkerOptions = {
  readonly peer: Peer;
  readonly membership: Membership;
  readonly clock: Clock;
  /** Makes what sessions stand on; left out, none can be opened. */
  readonly sessions?: ((ground: SessionsGround) => WorkerSessions) | undefined;
};

export class Worker {
  readonly router: Router;
  /** Undefined on a worker whose root opens no sessions. */
  readonly sessions: WorkerSessions | undefined;

  constructor({ sessions, ...options }: WorkerOptions) {
    this.router = new Router(options);
    this.sessions = sessions?.({ ...options, router: this.router });
    options.peer.serve(
      serveJson(PREPARE, async (channel, request) => {
        checkSender(channel, "PREPARE");
        await this.router.announcements.prepare(request);
        return {};
      }),
    );
  }
}
