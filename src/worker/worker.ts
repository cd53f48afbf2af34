// worker — a worker's engine: its router, the functions that it serves, and what its sessions stand on where a root
// gave it that. The faces above it decide what to ask; the servers own the state.
//
// Invariants:
//   Worker.S1. All that a worker serves is found in one table by the numbers in frames (Peer.handlers): functions by
//       name or number in the peer's host, frames with a layout of their own (parts of operations among workers) with
//       the handlers registered for them. Servers call over the connections that this worker has opened.
//   Worker.S2. A worker reads its links also while answers wait to leave (limits without `answerBytesMax`): a server
//       that reads no more of it until it reads goes on, whatever both have open. What waits is bounded by the windows
//       of those who call (ClusterNode.N4).

import type { Clock } from "../base/clock.ts";
import { badArgument, showValue } from "../base/errors.ts";
import type { OpenWaits } from "../base/open-waits.ts";
import type { Membership } from "../cluster/membership.ts";
import { checkSender } from "../cluster/scheduler-calls.ts";
import { PREPARE } from "../contracts/control.ts";
import type { FunctionCaller, WorkerFunction, WorkerHandler } from "../contracts/worker-function.ts";
import { serveJson } from "../peer/call-function.ts";
import type { Channel } from "../peer/channel.ts";
import type { Peer } from "../peer/peer.ts";
import { servedFunction } from "../peer/served-function.ts";
import type { Fields, FieldValues } from "../wire/function-schema.ts";
import { rankOf, roleOf } from "../wire/node-id.ts";
import { Router } from "./router.ts";
import type { ServicesGround, WorkerServices } from "./worker-services.ts";

export type WorkerOptions = {
  readonly peer: Peer;
  readonly membership: Membership;
  readonly clock: Clock;
  readonly startTimeoutMs: number;
  readonly waits: OpenWaits;
  /** Makes what sessions stand on; left out, none can be opened. */
  readonly sessions?: ((ground: Pick<ServicesGround, "router">) => WorkerServices) | undefined;
};

export class Worker {
  readonly router: Router;
  /** Undefined on a worker whose root opens no sessions. */
  readonly sessions: WorkerServices | undefined;
  readonly #peer: Peer;
  #servedCount = 0;

  constructor({ sessions, ...options }: WorkerOptions) {
    this.#peer = options.peer;
    this.#peer.hostOwnFunctions();
    this.router = new Router(options);
    this.sessions = sessions?.({ router: this.router });
    options.peer.serve(
      serveJson(PREPARE, async (channel, request) => {
        checkSender(channel, "PREPARE");
        await this.router.clockMessages.prepare(request);
        return {};
      }),
    );
  }

  /** How many functions of users it serves. */
  get servedCount(): number {
    return this.#servedCount;
  }

  /**
   * Serves a function to servers and other workers from now on, with this handler or the function's own; returns how to
   * end that. The caller has checked that it is one. Throws BAD_ARGUMENT when one of this name is served already, and
   * for two handlers or none.
   */
  serve<Q extends Fields, R extends Fields>(fn: WorkerFunction<Q, R>, handler?: WorkerHandler<Q, R>): () => void {
    const handle = handler ?? fn.handle?.bind(fn);
    if (typeof handle !== "function" || (handler !== undefined && fn.handle !== undefined)) {
      const what = typeof handle === "function" ? "it brings one, and here is another" : `not ${showValue(handle)}`;
      throw badArgument(`${fn.name} is served by one handler, a function: ${what}`);
    }
    const served = servedFunction(fn, {
      inPlace: fn.isInPlace,
      handler: (channel: Channel, request: FieldValues<Q>) => handle(callerOf(channel), request),
    });
    this.#peer.serve(served);
    this.#servedCount++;
    let isServed = true;
    return () => {
      if (isServed) this.#servedCount--;
      isServed = false;
      this.#peer.stopServing(served);
    };
  }
}

function callerOf({ id }: Channel): FunctionCaller {
  const role = roleOf(id);
  return { role: role === "scheduler" || role === "worker" ? role : "server", rank: rankOf(id) };
}
