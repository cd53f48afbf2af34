// node-memory — what a node remembers for a restarted scheduler, which has to learn it again. Each piece belongs to its
// owner (the client of units, of the catalogue …), which registers itself here.

import { reasonOf } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { catalogueTell } from "../contracts/catalogue.ts";
import { type CatalogueEntry, cataloguePages } from "../wire/catalogue.ts";
import type { HeartbeatRequest, RendezvousHeld } from "../wire/control.ts";
import type { Generation } from "../wire/generation.ts";
import type { ResumeClaim } from "../wire/register.ts";
import type { UnitsClaim } from "../wire/units-claim.ts";
import type { Membership } from "./membership.ts";

/** What a node knows of the catalogue of parameters. */
export type CatalogueSource = {
  /** The highest number that it knows. */
  readonly highest: number;
  entries(): Iterable<CatalogueEntry>;
};

export class NodeMemory {
  /** The units that a worker was lent. */
  units: () => UnitsClaim | undefined = () => undefined;
  /** The rendezvous that it has left. */
  rendezvous: () => readonly RendezvousHeld[] = () => [];
  /** The generation of workers that it is in. */
  generation: () => Generation | undefined = () => undefined;
  /** What every heartbeat carries: of a server, its news. */
  heartbeat: () => HeartbeatRequest = () => ({});
  catalogue: CatalogueSource = { highest: 0, entries: () => [] };

  /** What goes with the registration. */
  claim(): Pick<ResumeClaim, "units" | "gathered" | "rendezvous" | "catalogue"> {
    const { highest } = this.catalogue;
    return { units: this.units(), gathered: this.generation(), rendezvous: this.rendezvous(), catalogue: { highest } };
  }

  /** Reports the catalogue to the scheduler, page by page, once it has resumed the node. Failures are logged. */
  reportCatalogue(membership: Pick<Membership, "callScheduler">, log: Log): void {
    for (const page of cataloguePages(this.catalogue.entries())) {
      membership.callScheduler(catalogueTell, page).catch((thrown: unknown) => {
        log.warn("the scheduler did not learn which parameters this node knows", { reason: reasonOf(thrown) });
      });
    }
  }
}
