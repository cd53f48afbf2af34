// session-events — what a session tells its user that no call of the user has caused: servers come and go, this worker
// is asked to leave. All of it is read from the rosters that the scheduler sends; nothing is asked for it.
//
// Invariants:
//   SessionEvents.E1. Listeners are called after what has caused the event is done: the calls that they make see it.
//       They are called in the order in which the events came.
//   SessionEvents.E2. Each `serverback` follows a `serverlost` of the same server, unless it was lost before this node
//       came. A server that a standby takes over is lost and back at once.
//   SessionEvents.E3. What was there when this node came is no event. Nor is a server that comes to, or leaves, a
//       cluster that grows or shrinks: `placementchanged` tells of it.
//   SessionEvents.E4. A listener alone keeps no process alive, except one for `leaving` until that has come
//       (KeepProcess.P2).

import type { Clock } from "../base/clock.ts";
import { reasonAndSite, type WeighbridgeError } from "../base/errors.ts";
import { EventListeners, type ListenOptions } from "../base/event-listeners.ts";
import type { Log } from "../base/log.ts";
import type { Membership } from "../cluster/membership.ts";
import type { RosterEntry, RosterView } from "../wire/roster.ts";

/** A server was declared dead, or another process took over from it. Calls to it fail, or wait until it is back. */
export type ServerLostEvent = {
  readonly type: "serverlost";
  /** Its rank. */
  readonly server: number;
  /** Whether its process was stopped on purpose: a planned restart. */
  readonly isPlanned: boolean;
  /** Whether calls wait for a process that continues with its state. Otherwise they fail with NODE_DEAD. */
  readonly isAwaited: boolean;
};

/** A server that was lost is there again, in the same process or in another one. */
export type ServerBackEvent = {
  readonly type: "serverback";
  /** Its rank. */
  readonly server: number;
  /**
   * Whether it has the state that it had: calls that were open continue. Otherwise its part of every parameter is gone,
   * or as the checkpoint has it with which it was started, and handles of parameters have to be opened again.
   */
  readonly hasState: boolean;
};

/** This worker was taken for dead while the others continued, and has joined the clock set again. */
export type RejoinedEvent = {
  readonly type: "rejoined";
  /** The clock at which it stands now. */
  readonly clock: number;
  /** What the next call fails with, once: NOT_JOINED, with what of the worker's updates does not count. */
  readonly error: WeighbridgeError;
};

/** The job is to have fewer workers, and this one is asked to leave: end what is under way, then close the session. */
export type LeavingEvent = { readonly type: "leaving" };

/** Parts of parameters have other owners: the number of servers has changed, or is changing. */
export type PlacementChangedEvent = {
  readonly type: "placementchanged";
  /** The number of this placement; each has a higher one. */
  readonly epoch: number;
  /** The ranks of the servers that own parts now, ascending. */
  readonly servers: readonly number[];
};

/** The events of a session, by name. */
export type SessionEventMap = {
  /** A server died, or its link broke for good. */
  readonly serverlost: ServerLostEvent;
  /** A server's state is there again. */
  readonly serverback: ServerBackEvent;
  /** This worker was taken out of the clock set, and has joined it again. */
  readonly rejoined: RejoinedEvent;
  /** This worker is asked to leave the job. */
  readonly leaving: LeavingEvent;
  /** Parameters have moved to other servers. */
  readonly placementchanged: PlacementChangedEvent;
};

/** The names of the events of a session. */
export type SessionEventName = keyof SessionEventMap;
/** Any event of a session. */
export type SessionEvent = SessionEventMap[SessionEventName];

const NAMES: readonly SessionEventName[] = ["serverlost", "serverback", "rejoined", "leaving", "placementchanged"];

export type SessionEventsOptions = {
  readonly membership: Pick<Membership, "onRoster" | "onPlacement" | "node" | "incarnation">;
  readonly clock: Pick<Clock, "soon">;
  readonly log: Log;
};

/** What is known of a server: the incarnation since which its state continues, and whether it lives. */
type KnownServer = { readonly incarnation: number; readonly since: number; readonly isAlive: boolean };

export class SessionEvents {
  readonly #listeners: EventListeners<SessionEventMap>;
  readonly #clock: Pick<Clock, "soon">;
  readonly #membership: SessionEventsOptions["membership"];
  /** By rank. */
  readonly #servers = new Map<number, KnownServer>();
  #isLeaving = false;
  #hasPlacement = false;

  constructor({ membership, clock, log }: SessionEventsOptions) {
    this.#membership = membership;
    this.#clock = clock;
    this.#listeners = new EventListeners(NAMES, (event, thrown) => {
      log.error(`a listener of the event "${event}" has failed`, { event, reason: reasonAndSite(thrown) });
    });
    membership.onRoster((roster) => this.#follow(roster));
    membership.onPlacement(({ epoch, servers }) => {
      if (this.#hasPlacement) this.#tell({ type: "placementchanged", epoch, servers: [...servers].sort((a, b) => a - b) });
      this.#hasPlacement = true;
    });
  }

  /** Whether this worker was asked to leave. */
  get isLeaving(): boolean {
    return this.#isLeaving;
  }

  /** Whether a listener waits for this worker to be asked to leave. The notice comes once. */
  get awaitsLeaving(): boolean {
    return !this.#isLeaving && this.#listeners.has("leaving");
  }

  add<K extends SessionEventName>(type: K, listener: (event: SessionEventMap[K]) => unknown, options?: ListenOptions): void {
    this.#listeners.add(type, listener, options);
  }

  remove<K extends SessionEventName>(type: K, listener: (event: SessionEventMap[K]) => unknown): void {
    this.#listeners.remove(type, listener);
  }

  /** This worker has joined the clock set again. */
  rejoined(clock: number, error: WeighbridgeError): void {
    this.#tell({ type: "rejoined", clock, error });
  }

  /** SessionEvents.E1 */
  #tell(event: SessionEvent): void {
    if (this.#listeners.has(event.type)) this.#clock.soon(() => this.#listeners.emit(event));
  }

  #follow({ nodes }: RosterView): void {
    const listed = new Set<number>();
    for (const entry of nodes) {
      if (entry.node === this.#membership.node) this.#followOwn(entry);
      if (entry.role !== "server" || entry.state === "left" || entry.isRetired === true) continue; // SessionEvents.E3
      listed.add(entry.rank);
      this.#followServer(entry);
    }
    for (const rank of [...this.#servers.keys()]) if (!listed.has(rank)) this.#servers.delete(rank);
  }

  /** The roster says of an incarnation of this worker that it is to leave (docs/decisions/0074). */
  #followOwn({ isRetired, incarnation }: RosterEntry): void {
    if (this.#isLeaving || isRetired !== true || incarnation !== this.#membership.incarnation) return;
    this.#isLeaving = true;
    this.#tell({ type: "leaving" });
  }

  /** SessionEvents.E2 */
  #followServer({ rank: server, incarnation, state, continues, returns = false, isPlanned = false }: RosterEntry): void {
    const before = this.#servers.get(server);
    const now: KnownServer = { incarnation, since: continues ?? incarnation, isAlive: state === "alive" };
    this.#servers.set(server, now.isAlive || before === undefined ? now : { ...before, isAlive: false });
    if (before === undefined) return; // SessionEvents.E3
    const isOther = before.incarnation !== incarnation;
    const hasState = now.since <= before.incarnation;
    const isAwaited = now.isAlive ? hasState : returns;
    if (before.isAlive && (!now.isAlive || isOther)) this.#tell({ type: "serverlost", server, isPlanned, isAwaited });
    if (now.isAlive && (!before.isAlive || isOther)) this.#tell({ type: "serverback", server, hasState });
  }
}
