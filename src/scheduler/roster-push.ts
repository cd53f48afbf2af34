// roster-push — sends every change of the roster to the nodes, once it is durable (Scheduler.D5). A node that is slow or
// away has one call open, not one per change: when it answers and is behind, it gets the newest.

import type { Clock } from "../base/clock.ts";
import { ROSTER } from "../contracts/control.ts";
import { ask } from "../peer/call-function.ts";
import type { Channel } from "../peer/channel.ts";
import type { Peer } from "../peer/peer.ts";
import type { RosterEntry, RosterView } from "../wire/roster.ts";
import type { StateJournal } from "./state-journal.ts";

export type RosterPushOptions = {
  readonly peer: Peer;
  readonly clock: Clock;
  readonly journal: Pick<StateJournal, "told">;
  readonly view: () => RosterView;
};

export class RosterPush {
  readonly #peer: Peer;
  readonly #clock: Clock;
  readonly #journal: Pick<StateJournal, "told">;
  readonly #view: () => RosterView;
  readonly #open = new Set<Channel>();

  constructor({ peer, clock, journal, view }: RosterPushOptions) {
    this.#peer = peer;
    this.#clock = clock;
    this.#journal = journal;
    this.#view = view;
  }

  /** Brings everybody alive up to date, in their own time. */
  announce(): void {
    const view = this.#view();
    for (const entry of view.nodes) {
      const channel = this.#peer.channel(entry.node);
      if (isTold(entry) && channel !== undefined && !this.#open.has(channel)) this.#push(channel, view);
    }
  }

  #push(channel: Channel, view: RosterView): void {
    this.#open.add(channel);
    this.#journal.told(() => this.#send(channel, view));
  }

  #send(channel: Channel, view: RosterView): void {
    ask(channel, ROSTER, view, this.#clock).then(
      () => {
        this.#open.delete(channel);
        const newest = this.#view();
        const entry = newest.nodes.find(({ node }) => node === channel.id);
        if (newest.version > view.version && entry !== undefined && isTold(entry) && this.#peer.channel(channel.id) === channel)
          this.#push(channel, newest);
      },
      () => {
        // the channel ended, or the node refused: its next registration brings it up to date
        this.#open.delete(channel);
      },
    );
  }
}

/** A standby that has left its slot may have taken over: it learns that from the roster. */
function isTold({ role, state }: RosterEntry): boolean {
  return state === "alive" || (role === "standby" && state === "left");
}
