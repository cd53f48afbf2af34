// failure-notice — the end of a job that failed: the scheduler sends every node the reason, and stays until all have
// it, `lingerMs` at most. Nodes that come a moment later get it too; they would otherwise find no scheduler, and wait
// until their timeout.

import type { Clock } from "../base/clock.ts";
import { Deferred } from "../base/deferred.ts";
import type { WeighbridgeError } from "../base/errors.ts";
import { ABORT } from "../contracts/control.ts";
import { callJson } from "../peer/call-function.ts";
import type { Peer } from "../peer/peer.ts";
import { nameOf, type Role } from "../wire/node-id.ts";
import type { RosterView } from "../wire/roster.ts";

export type FailureNoticeOptions = {
  readonly clock: Clock;
  readonly serverCount: number;
  readonly workerCount: number;
  /** By how many processes each server rank is held. */
  readonly replicas?: number | undefined;
  readonly lingerMs: number;
};

export class FailureNotice {
  readonly #clock: Clock;
  readonly #serverCount: number;
  readonly #workerCount: number;
  readonly #lingerMs: number;
  readonly #servers = new Set<string>();
  readonly #workers = new Set<string>();
  readonly #over = new Deferred<void>();

  constructor({ clock, serverCount, workerCount, replicas = 1, lingerMs }: FailureNoticeOptions) {
    this.#clock = clock;
    this.#serverCount = serverCount * replicas;
    this.#workerCount = workerCount;
    this.#lingerMs = lingerMs;
    clock.after(lingerMs, this.#over.resolve);
  }

  /** Sends the reason to those who have a slot. */
  send(peer: Peer, { nodes }: RosterView, { code, message }: WeighbridgeError): void {
    for (const { node, role, state } of nodes) {
      const channel = peer.channel(node);
      if (state !== "alive" || channel === undefined) continue;
      const told = (): void => this.told(role, nameOf(node));
      callJson(channel, ABORT, { code, message }, this.#clock, { timeoutMs: this.#lingerMs }).then(told, told);
    }
  }

  /** This node knows, or cannot be reached. A node goes by one name, however often it registers. */
  told(role: Role, name: string): void {
    if (role !== "guest") (role === "worker" ? this.#workers : this.#servers).add(name);
    if (this.#servers.size >= this.#serverCount && this.#workers.size >= this.#workerCount) this.#over.resolve();
  }

  /** Resolves when the scheduler may go. */
  async over(): Promise<void> {
    await this.#over.promise;
    await drained(this.#clock);
  }
}

/** Lets the answers that are queued leave: they are written once the present input was handled. */
export async function drained(clock: Clock): Promise<void> {
  for (let turn = 0; turn < 2; turn++) await new Promise<void>((resolve) => clock.afterInput(resolve));
}
