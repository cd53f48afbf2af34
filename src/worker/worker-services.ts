// worker-services — what the sessions of a worker use beside its router: clients of the scheduler's services, and an
// engine for each session. A composition root hands it to the worker; one for the kv face alone loads none of it.

import { badRequest } from "../base/errors.ts";
import type { Membership } from "../cluster/membership.ts";
import { RETIRE } from "../contracts/coordination.ts";
import { serveJson } from "../peer/call-function.ts";
import type { GeneralCompression } from "../wire/codecs/general-compression.ts";
import { roleOf } from "../wire/node-id.ts";
import { CatalogueClient } from "./catalogue-client.ts";
import { ParameterEngine, type ParameterEngineOptions } from "./parameter-engine.ts";
import { RendezvousClient } from "./rendezvous-client.ts";
import type { Router } from "./router.ts";
import { UnitClient } from "./unit-client.ts";
import { WorkerMesh, type WorkerMeshOptions } from "./worker-mesh.ts";

/** The worker for which it is made, about to register. */
export type ServicesGround = WorkerMeshOptions & { readonly router: Router };

export type WorkerServicesOptions = {
  /** For parameters whose links ask for it; left out, those cannot be made. */
  readonly compression?: GeneralCompression | undefined;
};

export class WorkerServices {
  /** Which parameters there are, and their numbers. */
  readonly catalogue: CatalogueClient;
  /** What the scheduler lends this worker of its epochs. */
  readonly units: UnitClient;
  /** Where workers wait for each other. */
  readonly rendezvous: RendezvousClient;
  /** The links with the other workers. */
  readonly mesh: WorkerMesh;
  /** Fires when this worker is asked to leave. */
  readonly leaving: AbortSignal;
  readonly #router: Router;
  readonly #compression: GeneralCompression | undefined;

  constructor(ground: ServicesGround, { compression }: WorkerServicesOptions = {}) {
    this.#router = ground.router;
    this.#compression = compression;
    this.catalogue = new CatalogueClient(ground);
    this.units = new UnitClient(ground);
    this.rendezvous = new RendezvousClient(ground);
    this.mesh = new WorkerMesh(ground);
    this.leaving = leaveNotice(ground.membership);
    ground.peer.serve(
      serveJson(RETIRE, (channel, { placement }) => {
        if (roleOf(channel.id) !== "server") throw badRequest(`RETIRE comes from a server, not from ${channel.name}`);
        ground.membership.adoptPlacement(placement); // from now on nothing leaves for that server (Router.R4)
        return { openCount: channel.openCallCount };
      }),
    );
  }

  open(options: Omit<ParameterEngineOptions, "compression">): ParameterEngine {
    return new ParameterEngine(this.#router, this.catalogue, { ...options, compression: this.#compression });
  }
}

/**
 * Fires once, when the job is to have fewer workers and this one is among those that leave (docs/decisions/0074): the
 * roster says so of its incarnation. It leaves when it is done with what others count on.
 */
function leaveNotice(membership: Membership): AbortSignal {
  const notice = new AbortController();
  membership.onRoster(({ nodes }) => {
    const own = nodes.find(({ node }) => node === membership.node);
    if (own?.isRetired === true && own.incarnation === membership.incarnation) notice.abort();
  });
  return notice.signal;
}
