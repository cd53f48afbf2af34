// scaling-part — a server's part in changes of the servers of its job (docs/decisions/0073): whether it can take part,
// that it waits as a spare, and when it leaves. Parts move elsewhere (copy/parts-exchange.ts).
//
// Invariants:
//   ScalingPart.P1. What an application of the kv face keeps lies in contiguous ranges of raw keys, one for each
//       server, and does not move: a server that holds such keys refuses, and names the application.
//   ScalingPart.P2. A server leaves once the roster says that it is retired, and not before: then no part is its own,
//       and no change wants it.

import { Deferred } from "../base/deferred.ts";
import { unsupported } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { SpareNotice, SurveyReply } from "../wire/scaling.ts";
import { StoreHandle } from "./kv/store-handle.ts";
import type { Server } from "./server.ts";

export class ScalingPart {
  /** Resolves when this server is to leave (ScalingPart.P2). */
  readonly retired: Promise<void>;
  /** This node waits for its rank for as long as it takes. */
  waitOn: () => void = () => {};
  readonly #server: Pick<Server, "arena" | "apps" | "ownership" | "parameters" | "isStopping">;
  readonly #log: Log;
  readonly #retired = new Deferred<void>();

  constructor(server: Pick<Server, "arena" | "apps" | "ownership" | "parameters" | "isStopping">, log: Log) {
    this.#server = server;
    this.#log = log;
    this.retired = this.#retired.promise;
  }

  /** There is no rank for this server now. */
  spare({ serverCount }: SpareNotice): void {
    this.waitOn();
    const how = `weighbridge scale --servers ${serverCount + 1}`;
    this.#log.warn(`waiting as a spare: all ${serverCount} servers of the job are there; \`${how}\` makes room`);
  }

  /** ScalingPart.P2 */
  retire(): void {
    this.#log.warn("all parts have moved to other servers: this server leaves");
    this.#retired.resolve();
  }

  /** Throws UNSUPPORTED. */
  survey(): SurveyReply {
    const { arena, ownership } = this.#server;
    if (this.#server.isStopping) throw unsupported(`the servers of this job cannot change: server ${ownership.rank} is being stopped`);
    const app = this.#fixedApplication();
    if (app !== undefined) {
      const why = `${app} has keys of the kv face, in contiguous ranges of the servers, which do not move`;
      throw unsupported(`the servers of this job cannot change: ${why} (server ${ownership.rank})`);
    }
    return { stateBytes: arena.stateUsedBytes, stateBytesMax: arena.stateBytesMax };
  }

  /** ScalingPart.P1 */
  #fixedApplication(): string | undefined {
    const { apps, ownership, parameters } = this.#server;
    for (const [owner, { keyCount }] of parameters.sums.all) if (owner !== "data" && keyCount > 0) return `application ${owner}`;
    for (const [app, handler] of apps.served) if (!(handler instanceof StoreHandle)) return `application ${app}, whose handle is a user's,`;
    return ownership.hasAppCut ? "an application whose workers choose the servers of requests themselves" : undefined;
  }
}
