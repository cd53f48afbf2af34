// worker — a worker's engine: its router, and what it asks the scheduler for. The faces above it decide what to ask; the servers own the state.

import type { Clock } from "../base/clock.ts";
import type { Membership } from "../cluster/membership.ts";
import { checkSender } from "../cluster/scheduler-news.ts";
import { PREPARE } from "../contracts/control.ts";
import { serveJson } from "../peer/call-function.ts";
import type { Peer } from "../peer/peer.ts";
import { CatalogueClient } from "./catalogue-client.ts";
import { RendezvousClient } from "./rendezvous-client.ts";
import { Router } from "./router.ts";
import { SessionEngine, type SessionEngineOptions } from "./session-engine.ts";
import { UnitClient } from "./unit-client.ts";

export type WorkerOptions = {
  readonly peer: Peer;
  readonly membership: Membership;
  readonly clock: Clock;
};

export class Worker {
  readonly router: Router;
  /** Which parameters there are, and their numbers. */
  readonly catalogue: CatalogueClient;
  /** What the scheduler lends this worker of its epochs. */
  readonly units: UnitClient;
  /** Where workers wait for each other. */
  readonly rendezvous: RendezvousClient;

  constructor(options: WorkerOptions) {
    this.units = new UnitClient(options);
    this.rendezvous = new RendezvousClient(options);
    this.catalogue = new CatalogueClient(options);
    this.router = new Router(options);
    options.peer.serve(
      serveJson(PREPARE, async (channel, request) => {
        checkSender(channel, "PREPARE");
        await this.router.announcements.prepare(request);
        return {};
      }),
    );
  }

  /** What a session of this worker stands on. */
  openSession(options: SessionEngineOptions): SessionEngine {
    return new SessionEngine(this.router, this.catalogue, options);
  }
}
