// catalogue-calls — a worker's or server's requests to the scheduler's catalogue. Long lists are cut into requests that
// fit a message. The caller keeps what it needs of the answers (worker/catalogue-client.ts), and a scheduler that is
// restarted hears of it (rememberCatalogue).

import type { Clock } from "../base/clock.ts";
import { checkWait, type WaitOptions, waitFor } from "../base/deferred.ts";
import { isWeighbridgeError, reasonOf, WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { catalogueClear, catalogueFind, catalogueList, catalogueOpen, catalogueReserve, catalogueTell } from "../contracts/catalogue.ts";
import type { JsonContract } from "../contracts/contract.ts";
import { type CatalogueEntry, type CatalogueNumbers, cataloguePages, pagesOf } from "../wire/catalogue.ts";
import type { Membership } from "./membership.ts";

export type NumberedParameter = CatalogueNumbers["parameters"][number];

export class CatalogueCalls {
  readonly #membership: Membership;
  readonly #clock: Clock;

  constructor({ membership, clock }: { readonly membership: Membership; readonly clock: Clock }) {
    this.#membership = membership;
    this.#clock = clock;
  }

  /** Makes or opens parameters by specs in JSON. Throws SPEC_MISMATCH, CATALOGUE_FULL, and what `#call` throws. */
  async open(specs: readonly string[], what: string, wait: WaitOptions = {}): Promise<readonly NumberedParameter[]> {
    const numbered: NumberedParameter[] = [];
    for (const page of pagesOf(specs, textLength))
      numbered.push(...(await this.#call(catalogueOpen, { specs: page }, what, wait)).parameters);
    return numbered;
  }

  /** Numbers for names that are to be made later, or are made. Throws CATALOGUE_FULL, and what `#call` throws. */
  async reserve(names: readonly string[], what: string, wait: WaitOptions = {}): Promise<readonly NumberedParameter[]> {
    const numbered: NumberedParameter[] = [];
    for (const page of pagesOf(names, textLength))
      numbered.push(...(await this.#call(catalogueReserve, { names: page }, what, wait)).parameters);
    return numbered;
  }

  /** The entry of a name; undefined if the name is unknown. */
  async find(name: string, what: string, wait: WaitOptions = {}): Promise<CatalogueEntry | undefined> {
    return (await this.#call(catalogueFind, { name }, what, wait)).entry;
  }

  async clear(name: string, edition: number, what: string, wait: WaitOptions = {}): Promise<void> {
    await this.#call(catalogueClear, { name, edition }, what, wait);
  }

  /** All that are made, by number. */
  async list(wait: WaitOptions = {}): Promise<readonly CatalogueEntry[]> {
    const listed: CatalogueEntry[] = [];
    for (;;) {
      const after = listed.at(-1)?.number ?? 0;
      const { entries, isLast } = await this.#call(catalogueList, { after }, "list the parameters", wait);
      listed.push(...entries);
      if (isLast || entries.length === 0) return listed;
    }
  }

  /** Waits for a scheduler that is away; then sends the request unless the caller's time is over. */
  async #callLater<Q, R>(fn: JsonContract<Q, R>, body: Q, { timeoutMs = Infinity, signal }: WaitOptions): Promise<R> {
    const untilMs = this.#clock.nowMs() + timeoutMs;
    await this.#membership.schedulerBack();
    // nobody waits for it
    if (signal?.aborted === true || this.#clock.nowMs() >= untilMs) return await new Promise<never>(() => {});
    return await this.#membership.callScheduler(fn, body);
  }

  /**
   * Throws SCHEDULER_UNREACHABLE or DEADLINE, both with the scheduler's address and what it was to do, and what the
   * scheduler throws.
   */
  async #call<Q, R>(fn: JsonContract<Q, R>, body: Q, what: string, wait: WaitOptions): Promise<R> {
    checkWait(wait);
    const membership = this.#membership;
    const { schedulerAddress } = membership;
    try {
      // Nothing is sent to a scheduler that is away: it would answer when nobody waits any more, and make what nobody
      // wants.
      const asked = membership.isSchedulerAway ? this.#callLater(fn, body, wait) : membership.callScheduler(fn, body);
      return await waitFor(asked, `the scheduler at ${schedulerAddress} to ${what}`, this.#clock, wait);
    } catch (thrown) {
      if (!isWeighbridgeError(thrown, "DEADLINE") || !membership.isSchedulerAway) throw thrown;
      const message = `${thrown.message}, which is away; parameters that are open go on without it`;
      throw new WeighbridgeError("SCHEDULER_UNREACHABLE", message, { retryable: true, cause: thrown });
    }
  }
}

/** What a node knows of the catalogue of parameters. */
export type CatalogueSource = {
  /** The highest number that it knows. */
  readonly highest: number;
  entries(): Iterable<CatalogueEntry>;
};

/** From now on this node tells a restarted scheduler what it knows of the catalogue, page by page. Logs failures. */
export function rememberCatalogue(membership: Pick<Membership, "memory" | "callScheduler">, source: CatalogueSource, log: Log): void {
  const { memory } = membership;
  memory.catalogue = () => ({ highest: source.highest });
  memory.resumed = () => {
    for (const page of cataloguePages(source.entries())) {
      membership.callScheduler(catalogueTell, page).catch((thrown: unknown) => {
        log.warn("the scheduler did not learn which parameters this node knows", { reason: reasonOf(thrown) });
      });
    }
  };
}

/** Of a text in a message, with what stands around it. */
function textLength(text: string): number {
  return text.length + 8;
}
