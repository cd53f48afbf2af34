// unit-client — a worker's memory of the epochs whose units it was lent: opens feeds, and tells a scheduler that was
// restarted what it knows.
//
// Invariants:
//   UnitClient.C1. Of one epoch there is one open feed.
//   UnitClient.C2. What is remembered has bounds: the epochs that are over as runs, and the last ACCOUNTS_MAX that were
//       closed before their end.
//   UnitClient.C3. A report fits a message. Units that are left out of it are done again by somebody, and counted
//       as repeated.

import type { Clock } from "../base/clock.ts";
import type { WaitOptions } from "../base/deferred.ts";
import { badArgument } from "../base/errors.ts";
import { RunSet } from "../base/run-set.ts";
import type { Membership } from "../cluster/membership.ts";
import { UNITS } from "../contracts/coordination.ts";
import type { EpochDescription, Runs, UnitsAccount, UnitsClaim } from "../wire/units-claim.ts";
import { UNIT_RUNS_MAX } from "../wire/units-claim.ts";
import { UnitFeed } from "./unit-feed.ts";
import { checkUnits, IDLE_MS, type UnitOptions, Units, type UnitsGround } from "./units.ts";

const ACCOUNTS_MAX = 8;
const NAMES_MAX = 256;

export class UnitClient {
  readonly #membership: Membership;
  readonly #clock: Clock;
  readonly #feeds = new Map<string, UnitFeed>();
  /** Of epochs that were closed before they were over, the newest last. */
  readonly #accounts = new Map<string, UnitsAccount>();
  readonly #over = new Map<string, RunSet>();

  constructor({ membership, clock }: { readonly membership: Membership; readonly clock: Clock }) {
    this.#membership = membership;
    this.#clock = clock;
    membership.memory.units = () => this.#claim();
  }

  /** Throws BAD_ARGUMENT for a bad description, SPEC_MISMATCH if it differs from another worker's. */
  async open(name: string, options: UnitOptions & { readonly firstClock?: number }): Promise<UnitFeed> {
    const description = checkUnits(name, options);
    const { epoch, assignment, partsMax = options.partCount, idleMs = IDLE_MS, timeoutMs, signal } = options;
    const key = keyOf(description);
    // UnitClient.C1
    if (this.#feeds.has(key)) throw badArgument(`epoch ${epoch} of "${name}" is read already by a loop of this worker: end that one first`);
    const feed = new UnitFeed({
      ...{ description, clock: this.#clock, before: this.#accounts.get(key), idleMs: Math.max(1, Math.round(idleMs)) },
      ...(assignment === "rounds" ? { firstClock: options.firstClock ?? 0, partsMax: Math.floor(partsMax) } : {}),
      request: (request) => this.#membership.callScheduler(UNITS, request),
      ended: (ended) => this.#remember(ended),
    });
    this.#feeds.set(key, feed);
    try {
      await feed.open({ timeoutMs, signal });
    } catch (thrown) {
      this.#feeds.delete(key);
      throw thrown;
    }
    this.#accounts.delete(key);
    return feed;
  }

  /** The units of an epoch as a loop. Throws BAD_ARGUMENT. */
  loop(name: string, options: UnitOptions, ground: Omit<UnitsGround, "open" | "time">): Units {
    const open: UnitsGround["open"] = async (opened) => await this.open(name, opened);
    return new Units({ ...ground, open, time: this.#clock }, name, options);
  }

  /** The first epoch from `epoch` on of which a feed was closed here when it was over; Infinity if there is none. */
  nextOver(name: string, epoch: number): number {
    return this.#over.get(name)?.nextPresent(epoch) ?? Infinity;
  }

  /** Closes all that is open. */
  async close(wait: WaitOptions = {}): Promise<void> {
    await Promise.all([...this.#feeds.values()].map((feed) => feed.close(wait)));
  }

  #remember(feed: UnitFeed): void {
    const { description } = feed;
    const key = keyOf(description);
    if (this.#feeds.get(key) === feed) this.#feeds.delete(key);
    this.#accounts.delete(key);
    if (feed.isOver) {
      const over = this.#over.get(description.name) ?? new RunSet();
      over.add(description.epoch);
      this.#over.set(description.name, over);
      dropOldest(this.#over, NAMES_MAX);
    } else {
      this.#accounts.set(key, feed.account());
      dropOldest(this.#accounts, ACCOUNTS_MAX); // UnitClient.C2
    }
  }

  #claim(): UnitsClaim | undefined {
    let boundCount = 2 * UNIT_RUNS_MAX; // UnitClient.C3
    const fitting = (runs: Runs): Runs => {
      const told = runs.slice(0, boundCount);
      boundCount -= told.length;
      return told;
    };
    const over = [...this.#over].map(([name, epochs]) => ({ name, epochs: fitting(epochs.runs) }));
    const accounts = [...[...this.#feeds.values()].map((feed) => feed.account()), ...this.#accounts.values()];
    const open = accounts.map((account) => ({ ...account, done: fitting(account.done), suspect: fitting(account.suspect) }));
    return open.length + over.length === 0 ? undefined : { open, over };
  }
}

function keyOf({ name, epoch }: EpochDescription): string {
  return `${epoch}/${name}`;
}

function dropOldest(map: Map<string, unknown>, sizeMax: number): void {
  for (const key of map.keys()) {
    if (map.size <= sizeMax) return;
    map.delete(key);
  }
}
