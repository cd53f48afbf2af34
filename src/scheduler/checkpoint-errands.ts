// checkpoint-errands — the command line is no node, and knows nobody but the scheduler: this hands on what it asks of the servers' checkpoint services,
// and tells those servers when it has gone away, so that nothing waits there for somebody who will never come.

import type { Clock } from "../base/clock.ts";
import { reasonOf, WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { CHECKPOINT } from "../contracts/control.ts";
import { ask } from "../peer/call-function.ts";
import type { Channel } from "../peer/channel.ts";
import type { Peer } from "../peer/peer.ts";
import { ASKER_GONE, type CheckpointReply, type CheckpointRequest } from "../wire/control.ts";
import { idOf } from "../wire/node-id.ts";

export type CheckpointErrandsOptions = {
  readonly peer: Peer;
  readonly clock: Clock;
  readonly log: Log;
  readonly serverCount: number;
};

export class CheckpointErrands {
  readonly #options: CheckpointErrandsOptions;
  /** The servers that each link has asked something of. */
  readonly #asked = new Map<Channel, Set<number>>();

  constructor(options: CheckpointErrandsOptions) {
    this.#options = options;
  }

  /** Rejects with NO_ROUTE, NODE_DEAD and what the server answers. */
  async handOn(channel: Channel, request: CheckpointRequest): Promise<CheckpointReply> {
    const { serverCount } = this.#options;
    if (request.server >= serverCount) {
      throw new WeighbridgeError("NO_ROUTE", `there is no server ${request.server} among ${serverCount} here`);
    }
    const servers = this.#asked.get(channel) ?? new Set();
    this.#asked.set(channel, servers.add(request.server));
    return await this.#ask({ ...request, asker: `${channel.id}` });
  }

  /** The link is gone. */
  forget(channel: Channel): void {
    const servers = this.#asked.get(channel);
    this.#asked.delete(channel);
    for (const server of servers ?? []) {
      this.#ask({ server, op: ASKER_GONE, body: "{}", asker: `${channel.id}` }).catch((thrown: unknown) => {
        this.#options.log.debug("a server was not told that an asker is gone", { server, reason: reasonOf(thrown) });
      });
    }
  }

  async #ask(request: CheckpointRequest): Promise<CheckpointReply> {
    const { peer, clock } = this.#options;
    const channel = peer.channel(idOf("server", request.server));
    if (channel === undefined) throw new WeighbridgeError("NO_ROUTE", `server ${request.server} is not here`, { retryable: true });
    return await ask(channel, CHECKPOINT, request, clock);
  }
}
