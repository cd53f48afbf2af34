// node-memory — what a node remembers for a restarted scheduler, which has to learn it again. Each piece belongs to its
// owner (the client of units, of the catalogue …), which registers itself here.

import type { HeartbeatRequest, RendezvousHeld } from "../wire/control.ts";
import type { Generation } from "../wire/generation.ts";
import type { CatalogueClaim, ResumeClaim } from "../wire/register.ts";
import type { UnitsClaim } from "../wire/units-claim.ts";

export class NodeMemory {
  /** The units that a worker was lent. */
  units: () => UnitsClaim | undefined = () => undefined;
  /** The rendezvous that it has left. */
  rendezvous: () => readonly RendezvousHeld[] = () => [];
  /** The generation of workers that it is in. */
  generation: () => Generation | undefined = () => undefined;
  /** What every heartbeat carries: of a server, its news. */
  heartbeat: () => HeartbeatRequest = () => ({});
  /** What it knows of the catalogue of parameters; a node that knows nothing of it claims nothing. */
  catalogue: () => CatalogueClaim | undefined = () => undefined;
  /** Called once the scheduler has resumed the node: what does not go with the registration follows now. */
  resumed: () => void = () => {};

  /** What goes with the registration. */
  claim(): Pick<ResumeClaim, "units" | "gathered" | "rendezvous" | "catalogue"> {
    return { units: this.units(), gathered: this.generation(), rendezvous: this.rendezvous(), catalogue: this.catalogue() };
  }
}
