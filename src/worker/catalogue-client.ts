// catalogue-client — a worker's side of the catalogue of parameters: asks the scheduler for numbers, and remembers
// what it was told, for the time in which the scheduler is away and for a scheduler that is restarted.
//
// Invariants:
//   CatalogueClient.C1. A parameter that this worker has opened before opens again while the scheduler is away.
//       Whether it was cleared meanwhile, the servers say.

import { assert } from "../base/assert.ts";
import type { Clock } from "../base/clock.ts";
import { checkWait, type WaitOptions } from "../base/deferred.ts";
import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { didYouMean } from "../base/nearest-name.ts";
import { CatalogueCalls, type CatalogueSource, type NumberedParameter, rememberCatalogue } from "../cluster/catalogue-calls.ts";
import type { Membership } from "../cluster/membership.ts";
import { decodeParameterSpec, isDescribed, type ParameterSpec, specDifferences, type Wanted } from "../store/parameter-spec.ts";
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

  constructor(options: { readonly membership: Membership; readonly clock: Clock; readonly log: Log }) {
    this.#membership = options.membership;
    this.#calls = new CatalogueCalls(options);
    rememberCatalogue(options.membership, this, options.log);
  }

  get highest(): number {
    return this.#highest;
  }

  entries(): Iterable<CatalogueEntry> {
    return [...this.#known.values(), ...this.#cleared.values()];
  }

  /**
   * The number of this parameter, which is made if nobody has made it and it is described. Throws SPEC_MISMATCH when
   * somebody described it differently, UNKNOWN_PARAMETER for a name that nobody has made, CATALOGUE_FULL,
   * SCHEDULER_UNREACHABLE or DEADLINE for one that this worker does not know (CatalogueClient.C1).
   */
  async open<S extends ParameterSpec>(wanted: Wanted<S>, wait: WaitOptions): Promise<NumberedParameter & { readonly spec: S }> {
    checkWait(wait);
    const { name } = wanted;
    const what = `${isDescribed(wanted) ? "make or open" : "open"} ${JSON.stringify(name)}`;
    if (!isDescribed(wanted) || isLike(this.#known.get(name), wanted)) {
      const entry = await this.#find(name, what, wait);
      if (entry?.spec !== undefined && (!isDescribed(wanted) || isLike(entry, wanted))) {
        const spec = decodeParameterSpec(entry.spec);
        if (spec.kind !== wanted.kind) throw otherKind(spec);
        this.#remember(entry);
        return { ...numberOf(entry), isNew: false, spec: spec as S };
      }
    }
    if (!isDescribed(wanted)) throw await this.#unknown(name, wait);
    const spec = JSON.stringify(wanted);
    const [numbered] = await this.#calls.open([spec], what, wait);
    assert(numbered !== undefined, "each has its answer");
    this.#remember({ name, ...numberOf(numbered), spec });
    return { ...numbered, spec: wanted };
  }

  /**
   * What the scheduler has of this name; what this worker knows of it, while the scheduler says nothing
   * (CatalogueClient.C1). Nothing is made: a worker may give up waiting.
   */
  async #find(name: string, what: string, wait: WaitOptions): Promise<CatalogueEntry | undefined> {
    const known = this.#known.get(name);
    if (known === undefined) return await this.#calls.find(name, what, wait);
    if (this.#membership.isSchedulerAway) return known;
    try {
      return await this.#calls.find(name, what, { ...wait, timeoutMs: Math.min(wait.timeoutMs ?? Infinity, KNOWN_WAIT_MS) });
    } catch (thrown) {
      if (isWeighbridgeError(thrown, "DEADLINE") || isWeighbridgeError(thrown, "SCHEDULER_UNREACHABLE")) return known;
      throw thrown;
    }
  }

  async #unknown(name: string, wait: WaitOptions): Promise<WeighbridgeError> {
    const names = (await this.#calls.list(wait)).map((entry) => entry.name);
    const others = names.length === 0 ? ", nor any other." : didYouMean(name, names);
    return new WeighbridgeError("UNKNOWN_PARAMETER", `there is no parameter ${JSON.stringify(name)}${others} To make it, describe it`);
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

function otherKind({ kind, name }: ParameterSpec): WeighbridgeError {
  const [other, opens] = kind === "table" ? ["tensor", "embedding"] : ["table", "tensor"];
  return new WeighbridgeError("SPEC_MISMATCH", `${JSON.stringify(name)} is a ${kind}, not a ${other}: open it with ${opens}()`);
}

function isLike(entry: CatalogueEntry | undefined, spec: ParameterSpec): boolean {
  return entry?.spec !== undefined && specDifferences(decodeParameterSpec(entry.spec), spec).length === 0;
}

function numberOf({ number, edition }: ParameterNumber): ParameterNumber {
  return { number, edition };
}
