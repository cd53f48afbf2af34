// function-relay — forwards calls of the command line to servers: it is no node, and knows the scheduler alone. Servers
// learn when it has gone away, so that nothing waits there for it.

import type { Clock } from "../base/clock.ts";
import { reasonOf, WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { relayCall, relayGone } from "../contracts/tools.ts";
import { nodeDeadError } from "../peer/call.ts";
import { callFunction } from "../peer/call-function.ts";
import type { Channel } from "../peer/channel.ts";
import type { Peer } from "../peer/peer.ts";
import { servedFunction } from "../peer/served-function.ts";
import { idOf } from "../wire/node-id.ts";
import { type RosterView, serverRanks } from "../wire/roster.ts";

export type FunctionRelayOptions = {
  readonly peer: Peer;
  readonly clock: Clock;
  readonly log: Log;
  readonly view: () => Pick<RosterView, "nodes">;
};

export class FunctionRelay {
  readonly #options: FunctionRelayOptions;
  /** The servers that each link has called. */
  readonly #serversOf = new Map<Channel, Set<number>>();

  constructor(options: FunctionRelayOptions) {
    this.#options = options;
  }

  /** Calls through this node are rejected with NO_ROUTE, NODE_DEAD and what the server answers. */
  serve(): void {
    const { peer, clock } = this.#options;
    peer.serve(
      servedFunction(relayCall, {
        handler: async (channel: Channel, call) => {
          const { server } = call;
          this.#requireServer(server);
          const servers = this.#serversOf.get(channel) ?? new Set();
          this.#serversOf.set(channel, servers.add(server));
          return await callFunction(this.#channelTo(server), relayCall, { ...call, caller: `${channel.id}` }, { clock });
        },
      }),
    );
  }

  /** The link is gone. */
  forget(channel: Channel): void {
    const servers = this.#serversOf.get(channel);
    this.#serversOf.delete(channel);
    for (const server of servers ?? []) {
      this.#tell(server, `${channel.id}`).catch((thrown: unknown) => {
        this.#options.log.debug("a server did not learn that a caller is gone", { server, reason: reasonOf(thrown) });
      });
    }
  }

  async #tell(server: number, caller: string): Promise<void> {
    await callFunction(this.#channelTo(server), relayGone, { caller }, { clock: this.#options.clock });
  }

  /** Throws NO_ROUTE. */
  #requireServer(server: number): void {
    const ranks = serverRanks(this.#options.view());
    if (ranks.length > 0 && !ranks.includes(server))
      throw new WeighbridgeError("NO_ROUTE", `there is no server ${server} among ${ranks.length} here`);
  }

  /** Nobody answers on the channel of a server that is gone. Throws NODE_DEAD, NO_ROUTE. */
  #channelTo(server: number): Channel {
    const { peer, view } = this.#options;
    const node = idOf("server", server);
    const state = view().nodes.find((entry) => entry.node === node)?.state;
    if (state === "dead" || state === "left") throw nodeDeadError(node, state);
    const channel = peer.channel(node);
    if (channel === undefined) throw new WeighbridgeError("NO_ROUTE", `server ${server} is not here`, { retryable: true });
    return channel;
  }
}
