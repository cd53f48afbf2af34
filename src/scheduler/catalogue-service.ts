// catalogue-service — answers nodes that make, open, clear or list parameters, and collects what nodes report after a
// restart of the scheduler. catalogue.ts decides.
//
// Invariants:
//   CatalogueService.S1. After a restart nothing is answered before every live node has reported what it knows: no
//       number is given twice.
//   CatalogueService.S2. If the reports of two nodes contradict each other, that is logged, and the name that lost is
//       refused from then on. Nothing is guessed: a name with a wrong number would read another's values.

import { Deferred } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import {
  type CatalogueClearRequest,
  type CatalogueFindRequest,
  type CatalogueFound,
  type CatalogueListRequest,
  type CatalogueNumbers,
  type CatalogueOpenRequest,
  type CataloguePage,
  type CatalogueReserveRequest,
  cataloguePages,
} from "../wire/catalogue.ts";
import type { Empty } from "../wire/control.ts";
import { nameOf } from "../wire/node-id.ts";
import type { CatalogueClaim } from "../wire/register.ts";
import type { RosterView } from "../wire/roster.ts";
import {
  CATALOGUE_BOUNDS,
  type CatalogueBounds,
  type CatalogueDecision,
  clearParameter,
  madeParameters,
  openParameters,
  recallEntry,
  reserveNumbers,
} from "./catalogue.ts";
import type { StateJournal } from "./state-journal.ts";

export type CatalogueServiceOptions = {
  readonly journal: StateJournal;
  readonly log: Log;
  readonly bounds?: CatalogueBounds;
};

export class CatalogueService {
  readonly #journal: StateJournal;
  readonly #log: Log;
  readonly #bounds: CatalogueBounds;
  /** Nodes that resumed and have more to report: the incarnation by node. */
  readonly #telling = new Map<number, number>();
  /** Why names are refused, by name (CatalogueService.S2). */
  readonly #conflicts = new Map<string, string>();
  /** Those who wait for CatalogueService.S1; undefined once it holds. */
  #settled: Deferred<void> | undefined = new Deferred();

  constructor({ journal, log, bounds = CATALOGUE_BOUNDS }: CatalogueServiceOptions) {
    this.#journal = journal;
    this.#log = log;
    this.#bounds = bounds;
  }

  async open({ specs }: CatalogueOpenRequest): Promise<CatalogueNumbers> {
    await this.#settled?.promise;
    return this.#carryOut(openParameters(this.#journal.state.catalogue, specs, this.#bounds));
  }

  async reserve({ names }: CatalogueReserveRequest): Promise<CatalogueNumbers> {
    await this.#settled?.promise;
    return this.#carryOut(reserveNumbers(this.#journal.state.catalogue, names, this.#bounds));
  }

  async find({ name }: CatalogueFindRequest): Promise<CatalogueFound> {
    await this.#settled?.promise;
    return { entry: this.#journal.state.catalogue.entries.get(name) };
  }

  async clear({ name, edition }: CatalogueClearRequest): Promise<Empty> {
    await this.#settled?.promise;
    this.#journal.write(...clearParameter(this.#journal.state.catalogue, name, edition));
    return {};
  }

  async list({ after }: CatalogueListRequest): Promise<CataloguePage> {
    await this.#settled?.promise;
    const [page] = cataloguePages(madeParameters(this.#journal.state.catalogue, after));
    return page ?? { entries: [], isLast: true };
  }

  /** A node resumed its slot, and has pages to report if it makes a claim. */
  resumed(node: number, incarnation: number, claim: CatalogueClaim | undefined): void {
    if (claim === undefined) return;
    this.#journal.write({ kind: "highest", number: claim.highest });
    this.#telling.set(node, incarnation);
  }

  /** What a node knows from an earlier scheduler. Throws CATALOGUE_FULL. */
  tell(node: number, incarnation: number, { entries, isLast }: CataloguePage): Empty {
    const { namesMax } = this.#bounds;
    for (const told of entries) {
      if (this.#journal.state.catalogue.entries.size + this.#conflicts.size >= 2 * namesMax)
        throw new WeighbridgeError("CATALOGUE_FULL", `${nameOf(node)} reports more than ${namesMax} names`);
      const { record, conflict } = recallEntry(this.#journal.state.catalogue, told);
      if (record !== undefined) this.#journal.write(record);
      if (conflict !== undefined) this.#refuse(told.name, `${nameOf(node)} tells that ${conflict}`);
    }
    if (isLast && this.#telling.get(node) === incarnation) this.#telling.delete(node);
    return {};
  }

  /** The roster as it is now; `isHeard`: every node that should be alive has sent something. */
  follow({ nodes }: RosterView, isHeard: boolean): void {
    for (const { node, incarnation, state } of nodes)
      if (state !== "alive" || this.#telling.get(node) !== incarnation) this.#telling.delete(node);
    if (!isHeard || this.#telling.size > 0) return;
    this.#settled?.resolve(); // CatalogueService.S1
    this.#settled = undefined;
  }

  close(error: WeighbridgeError): void {
    this.#settled?.reject(error);
  }

  #carryOut({ records, parameters }: CatalogueDecision): CatalogueNumbers {
    const { names } = this.#journal.state.catalogue;
    for (const record of records) if (record.kind === "parameter") this.#checkConflict(record.name);
    for (const { number } of parameters) this.#checkConflict(names.get(number));
    this.#journal.write(...records);
    return { parameters };
  }

  #checkConflict(name = ""): void {
    const conflict = this.#conflicts.get(name);
    if (conflict !== undefined) throw new WeighbridgeError("SPEC_MISMATCH", conflict);
  }

  /** CatalogueService.S2 */
  #refuse(name: string, conflict: string): void {
    const fix = "two schedulers have led this job; save what is needed, and start the whole job again";
    this.#conflicts.set(name, `the parameter ${JSON.stringify(name)} cannot be opened: ${conflict}; ${fix}`);
    this.#log.error("nodes disagree on a parameter", { parameter: name, conflict });
  }
}
