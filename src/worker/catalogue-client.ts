// catalogue-client — a worker's side of the catalogue of parameters: asks the scheduler for numbers, and remembers
// what it was told, for the time in which the scheduler is away and for a scheduler that is restarted.
//
// Invariants:
//   CatalogueClient.C1. A parameter that this worker has opened before opens again while the scheduler is away.
//       Whether it was cleared meanwhile, the servers say.

import { assert } from "../base/assert.ts";
import type { Clock } from "../base/clock.ts";
import { checkWait, type WaitOptions } from "../base/deferred.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import { CatalogueCalls, type NumberedParameter } from "../cluster/catalogue-calls.ts";
import type { Membership } from "../cluster/membership.ts";
import type { CatalogueSource } from "../cluster/node-memory.ts";
import { decodeParameterSpec, type ParameterSpec, specDifferences } from "../store/parameter-spec.ts";
import type { CatalogueEntry, ParameterNumber } from "../wire/catalogue.ts";

/** How long to wait for a linked scheduler that does not answer, if this worker knows the parameter. */
const KNOWN_WAIT_MS = 1000;
/** Parameters may come and go without end. */
const CLEARED_MAX = 1024;

export class CatalogueClient implements CatalogueSource {
  readonly #membership: Membership;
  readonly #calls: CatalogueCalls;
  readonly #known = new Map<string, CatalogueEntry>();
  /** Names that this worker cleared, the oldest first. */
  readonly #cleared = new Map<string, CatalogueEntry>();
  #highest = 0;

  constructor(options: { readonly membership: Membership; readonly clock: Clock }) {
    this.#membership = options.membership;
    this.#calls = new CatalogueCalls(options);
    options.membership.memory.catalogue = this;
  }

  get highest(): number {
    return this.#highest;
  }

  entries(): Iterable<CatalogueEntry> {
    return [...this.#known.values(), ...this.#cleared.values()];
  }

  /**
   * The number of this parameter, which is made if nobody has made it. Throws SPEC_MISMATCH when somebody described
   * it differently, CATALOGUE_FULL, SCHEDULER_UNREACHABLE or DEADLINE for one that this worker does not know (C1).
   */
  async open(spec: ParameterSpec, wait: WaitOptions): Promise<NumberedParameter> {
    checkWait(wait);
    const { name } = spec;
    const text = JSON.stringify(spec);
    const known = this.#known.get(name);
    const what = `make or open ${JSON.stringify(name)}`;
    if (known !== undefined && isLike(known, spec) && (await this.#isStill(known, what, wait))) return { ...numberOf(known), isNew: false };
    const [numbered] = await this.#calls.open([text], what, wait);
    assert(numbered !== undefined, "each has its answer");
    this.#remember({ name, ...numberOf(numbered), spec: text });
    return numbered;
  }

  /**
   * Whether what this worker knows is as the scheduler says, or the scheduler says nothing (C1). Nothing is made: a
   * worker may give up waiting.
   */
  async #isStill(known: CatalogueEntry, what: string, wait: WaitOptions): Promise<boolean> {
    if (this.#membership.isSchedulerAway) return true;
    try {
      const deadlineMs = Math.min(wait.deadlineMs ?? Infinity, KNOWN_WAIT_MS);
      const entry = await this.#calls.find(known.name, what, { ...wait, deadlineMs });
      return entry?.spec !== undefined && entry.number === known.number && entry.edition === known.edition;
    } catch (thrown) {
      if (isWeighbridgeError(thrown, "DEADLINE") || isWeighbridgeError(thrown, "SCHEDULER_UNREACHABLE")) return true;
      throw thrown;
    }
  }

  /** Ends this edition, so that the name can be described anew. Returns it: the servers still have to clear it. */
  async clear(name: string, wait: WaitOptions): Promise<number> {
    const what = `clear ${JSON.stringify(name)}`;
    const entry = await this.#calls.find(name, what, wait);
    if (entry === undefined) return 0;
    if (entry.spec === undefined) return entry.edition - 1;
    const { number, edition } = entry;
    await this.#calls.clear(name, edition, what, wait);
    this.#known.delete(name);
    this.#cleared.delete(name);
    this.#cleared.set(name, { name, number, edition: edition + 1 });
    const [oldest] = this.#cleared.keys();
    if (this.#cleared.size > CLEARED_MAX && oldest !== undefined) this.#cleared.delete(oldest);
    return edition;
  }

  /** A server says that this edition was cleared: it is not opened from memory any more. */
  forget(name: string): void {
    this.#known.delete(name);
  }

  /** The specs of all parameters there are. Throws SCHEDULER_UNREACHABLE, DEADLINE. */
  async list(wait: WaitOptions): Promise<readonly ParameterSpec[]> {
    return (await this.#calls.list(wait)).map(({ spec = "" }) => decodeParameterSpec(spec));
  }

  #remember(entry: CatalogueEntry): void {
    this.#cleared.delete(entry.name);
    this.#known.set(entry.name, entry);
    this.#highest = Math.max(this.#highest, entry.number);
  }
}

function isLike({ spec: text }: CatalogueEntry, spec: ParameterSpec): boolean {
  return text !== undefined && specDifferences(decodeParameterSpec(text), spec).length === 0;
}

function numberOf({ number, edition }: ParameterNumber): ParameterNumber {
  return { number, edition };
}
