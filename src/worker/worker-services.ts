// worker-services — what the sessions of a worker use beside its router: clients of the scheduler's services, and an
// engine for each session. A composition root hands it to the worker; one for the kv face alone loads none of it.

import { badRequest } from "../base/errors.ts";
import type { Membership } from "../cluster/membership.ts";
import { RETIRE } from "../contracts/coordination.ts";
import { serveJson } from "../peer/call-function.ts";
import type { GeneralCompression } from "../wire/codecs/general-compression.ts";
import { nameOf, roleOf } from "../wire/node-id.ts";
import { CatalogueClient } from "./catalogue-client.ts";
import { HeldUpdates } from "./held-updates.ts";
import { LongWaits } from "./long-waits.ts";
import { type LoadedOnDemand, ParameterEngine, type ParameterEngineOptions } from "./parameter-engine.ts";
import { RendezvousClient } from "./rendezvous-client.ts";
import type { Router } from "./router.ts";
import { SessionEvents } from "./session-events.ts";
import { UnitClient } from "./unit-client.ts";
import { WorkerMesh, type WorkerMeshOptions } from "./worker-mesh.ts";

/** The worker for which it is made, about to register. */
export type ServicesGround = WorkerMeshOptions & { readonly router: Router };

export type WorkerServicesOptions = {
  /** For parameters whose links ask for it; left out, those cannot be made. */
  readonly compression?: GeneralCompression | undefined;
} & LoadedOnDemand;

export class WorkerServices {
  /** Which parameters there are, and their numbers. */
  readonly catalogue: CatalogueClient;
  /** What the scheduler lends this worker of its epochs. */
  readonly units: UnitClient;
  /** Where workers wait for each other. */
  readonly rendezvous: RendezvousClient;
  /** The links with the other workers. */
  readonly mesh: WorkerMesh;
  /** What its sessions tell their users. */
  readonly events: SessionEvents;
  readonly longWaits: LongWaits;
  readonly held: HeldUpdates = new HeldUpdates();
  readonly #router: Router;
  readonly #options: WorkerServicesOptions;
  readonly #membership: Membership;

  constructor(ground: ServicesGround, options: WorkerServicesOptions) {
    this.#router = ground.router;
    this.#options = options;
    this.#membership = ground.membership;
    tellDeaths(ground);
    this.catalogue = new CatalogueClient(ground);
    this.units = new UnitClient(ground);
    this.mesh = new WorkerMesh(ground);
    this.events = new SessionEvents(ground);
    this.longWaits = new LongWaits(ground);
    this.rendezvous = new RendezvousClient({ ...ground, longWaits: this.longWaits });
    ground.peer.serve(
      serveJson(RETIRE, (channel, { placement }) => {
        if (roleOf(channel.id) !== "server") throw badRequest(`RETIRE comes from a server, not from ${channel.name}`);
        ground.membership.adoptPlacement(placement); // from now on nothing leaves for that server (Router.R4)
        return { openCount: channel.openCallCount };
      }),
    );
  }

  open(options: Omit<ParameterEngineOptions, keyof WorkerServicesOptions>): ParameterEngine {
    const engine = new ParameterEngine(this.#router, this.catalogue, { ...options, ...this.#options });
    this.held.add(engine);
    this.#membership.onTakenForDead(engine.clock);
    engine.clock.onRejoined((error) => this.events.rejoined(engine.clock.value, error));
    return engine;
  }
}

/** Says once of each worker that dies that what waited for it has gone on without it. */
function tellDeaths({ membership, log }: ServicesGround): void {
  let known: ReadonlySet<string> | undefined; // those that were dead before this worker came are no news
  membership.onRoster(({ nodes }) => {
    const dead = nodes.filter(({ node, role, state }) => role === "worker" && state === "dead" && node !== membership.node);
    for (const { node, incarnation } of dead)
      if (known !== undefined && !known.has(`${node}/${incarnation}`))
        log.warn("a worker is dead: reads, rounds and barriers go on without it", { node: nameOf(node), incarnation });
    known = new Set([...(known ?? []), ...dead.map(({ node, incarnation }) => `${node}/${incarnation}`)]);
  });
}
