// roster-push — sends every change of the roster to the nodes, once it is durable (Scheduler.D5). A node that is slow
// or away has one call open, not one per change: when it answers and is behind, it gets the newest. Guests get rosters
// as workers do; what concerns only guests goes to servers and standbys (RankSlots.V4). A guest that is let in waits
// until a server has heard of it (Guests.G4).

import type { Clock } from "../base/clock.ts";
import { Deferred } from "../base/deferred.ts";
import { ROSTER } from "../contracts/control.ts";
import { callJson } from "../peer/call-function.ts";
import type { Channel } from "../peer/channel.ts";
import type { Peer } from "../peer/peer.ts";
import { isGuest, type Role, roleOf } from "../wire/node-id.ts";
import type { RosterEntry, RosterView } from "../wire/roster.ts";
import type { Audience } from "./rank-slots.ts";
import type { StateJournal } from "./state-journal.ts";

export type RosterPushOptions = {
  readonly peer: Peer;
  readonly clock: Clock;
  readonly journal: Pick<StateJournal, "told">;
  /** What a node of this role sees. */
  readonly view: (reader: Role) => RosterView;
  readonly guests: { has(node: number): boolean; entries(): readonly { readonly node: number }[] };
};

export class RosterPush {
  readonly #peer: Peer;
  readonly #clock: Clock;
  readonly #journal: Pick<StateJournal, "told">;
  readonly #view: RosterPushOptions["view"];
  readonly #guests: RosterPushOptions["guests"];
  readonly #open = new Set<Channel>();
  /** The newest version that a server has acknowledged. */
  #heardVersion = 0;
  /** While somebody waits for a later one. */
  #hearing: Deferred<void> | undefined;

  constructor({ peer, clock, journal, view, guests }: RosterPushOptions) {
    this.#peer = peer;
    this.#clock = clock;
    this.#journal = journal;
    this.#view = view;
    this.#guests = guests;
  }

  /** Brings everybody alive up to date, or all servers, in their own time. */
  publish(to: Audience): void {
    const forServers = this.#view("server");
    const forOthers = this.#view("worker");
    for (const entry of forServers.nodes)
      if (isTold(entry) && (to === "all" || entry.role !== "worker"))
        this.#bring(entry.node, entry.role === "worker" ? forOthers : forServers);
    if (to === "all") for (const { node } of this.#guests.entries()) this.#bring(node, forOthers);
    if (!forServers.nodes.some(isLiveServer)) this.#wake();
  }

  /** Resolves once a server has heard of what is published by now, or none is alive (Guests.G4). */
  async heard(): Promise<void> {
    const { version } = this.#view("server");
    while (this.#heardVersion < version && this.#view("server").nodes.some(isLiveServer)) {
      this.#hearing ??= new Deferred();
      await this.#hearing.promise;
    }
  }

  /** A server has registered: its answer has the roster, but shows nobody that it came. */
  serverCame(): void {
    if (this.#hearing !== undefined) this.publish("servers");
  }

  #wake(): void {
    this.#hearing?.resolve();
    this.#hearing = undefined;
  }

  #bring(node: number, view: RosterView): void {
    const channel = this.#peer.channel(node);
    if (channel !== undefined && !this.#open.has(channel)) this.#push(channel, view);
  }

  #push(channel: Channel, view: RosterView): void {
    this.#open.add(channel);
    this.#journal.told(() => this.#send(channel, view));
  }

  #send(channel: Channel, view: RosterView): void {
    callJson(channel, ROSTER, view, this.#clock).then(
      () => {
        this.#open.delete(channel);
        if (roleOf(channel.id) === "server" && view.version > this.#heardVersion) {
          this.#heardVersion = view.version;
          this.#wake();
        }
        if (this.#peer.channel(channel.id) !== channel) return;
        const newest = this.#newestFor(channel.id);
        if (newest !== undefined && newest.version > view.version) this.#push(channel, newest);
      },
      () => {
        // the channel ended, or the node refused: its next registration brings it up to date
        this.#open.delete(channel);
      },
    );
  }

  /** Undefined if it is to be told nothing any more. */
  #newestFor(node: number): RosterView | undefined {
    if (isGuest(node)) return this.#guests.has(node) ? this.#view("guest") : undefined;
    const entry = this.#view("worker").nodes.find((candidate) => candidate.node === node);
    return entry !== undefined && isTold(entry) ? this.#view(entry.role) : undefined;
  }
}

function isLiveServer({ role, state }: RosterEntry): boolean {
  return role === "server" && state === "alive";
}

/** A standby that has left its slot may have taken over: it learns that from the roster. */
function isTold({ role, state }: RosterEntry): boolean {
  return state === "alive" || (role === "standby" && state === "left");
}
