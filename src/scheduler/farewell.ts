// farewell — how long a scheduler whose job failed stays, so that every node hears the reason: until all of them have, `lingerMs` at most.
// Nodes that were not there when it failed are among them: they come a moment later, and would otherwise find nobody and wait in vain.

import type { Clock } from "../base/clock.ts";
import { Deferred } from "../base/deferred.ts";
import type { Role } from "../wire/node-id.ts";

export type FarewellOptions = {
  readonly clock: Clock;
  readonly serverCount: number;
  readonly workerCount: number;
  readonly lingerMs: number;
};

export class Farewell {
  readonly #clock: Clock;
  readonly #serverCount: number;
  readonly #workerCount: number;
  readonly #servers = new Set<string>();
  readonly #workers = new Set<string>();
  readonly #over = new Deferred<void>();

  constructor({ clock, serverCount, workerCount, lingerMs }: FarewellOptions) {
    this.#clock = clock;
    this.#serverCount = serverCount;
    this.#workerCount = workerCount;
    clock.after(lingerMs, this.#over.resolve);
  }

  /** This node knows, or cannot be told. A node goes by one name, however often it asks. */
  told(role: Role, name: string): void {
    (role === "server" ? this.#servers : this.#workers).add(name);
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
