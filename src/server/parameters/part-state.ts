// part-state — the state of one part over all parameters of a server, and of its data: saved, loaded, dropped and
// counted without reading other parts. Moving, copying and saving parts use it. Not a protocol: its callers stop pushes
// to the part meanwhile, or send changes again.
//
// Clocks of workers, numbers of pushes (with lazyAdam's steps), learning rates and consistency belong to the server,
// not to a part: servers learn them from workers and through the functions of parameters, and one that comes into the
// placement from the others (MemberImage).
//
// Invariants:
//   PartState.P1. A loaded part equals the saved one, bit for bit, with the optimizer's slots, step counts and
//       versions. Loading a page is idempotent.
//   PartState.P2. Open rounds belong to their part: what a worker pushed at a clock that is not over moves with its
//       rows or its block, and counts once.
//   PartState.P3. A page that finds no room is refused, and may be loaded again; rows and blocks are as they were.

import { badRequest, WeighbridgeError } from "../../base/errors.ts";
import { freeBuffer } from "../../base/free-buffer.ts";
import type { WorkerIncarnation } from "../../consistency/worker-incarnations.ts";
import { PART_COUNT } from "../../keys/part.ts";
import type { BlockImage } from "../../store/block-span.ts";
import type { PulledImages } from "../../store/pulled-rows.ts";
import type { SumImages } from "../../store/sums/sum-requests.ts";
import type { PartMarks } from "../../store/table-parts.ts";
import type { RowImages } from "../../store/table-requests.ts";
import type { CatalogueEntry } from "../../wire/catalogue.ts";
import type { ParameterImage } from "./hosted-parameter.ts";
import type { Parameters } from "./parameters.ts";
import type { RowContributionImage } from "./row-contribution.ts";
import { TableParameter } from "./table-parameter.ts";
import type { BlockContributionImage } from "./tensor-requests.ts";

export class PartState {
  readonly #parameters: Parameters;

  constructor(parameters: Parameters) {
    this.#parameters = parameters;
  }

  /**
   * The parts that have pages or sums, and perhaps others: most of the 4,096 of small parameters have none. Throws as
   * `savePart`.
   */
  marks(): PartMarks {
    const { all, sums } = this.#parameters;
    const marks = new Uint8Array(PART_COUNT);
    for (const parameter of all) {
      if (parameter.failure !== undefined) throw parameter.failure;
      parameter.markParts(marks);
      if (marks.every((mark) => mark === 1)) return marks; // one large table is enough
    }
    for (const store of sums.all.values()) store.markParts(marks);
    return marks;
  }

  /** All of a part, page by page. May miss changes between two pages. Throws ARENA_FULL, HANDLER_FAILED. */
  *savePart(part: number): Iterable<PartPage> {
    for (const parameter of this.#parameters.all) {
      if (parameter.failure !== undefined) throw parameter.failure; // it would look intact elsewhere
      const { name } = parameter.spec;
      for (const page of parameter.savePart(part)) yield { parameter: name, ...page };
    }
    for (const images of this.#parameters.sums.of("data").savePart(part)) yield { kind: "data", images };
  }

  /**
   * Replaces the present state (PartState.P1). Throws UNKNOWN_PARAMETER, ARENA_FULL, STALE_UPDATE for a round that is
   * over here.
   */
  loadPart(pages: Iterable<PartPage>): void {
    for (const page of pages) {
      if (page.kind === "data") {
        this.#parameters.sums.of("data").put(page.images);
        continue;
      }
      const parameter = this.#parameters.find(page.parameter);
      if (parameter === undefined)
        throw new WeighbridgeError("UNKNOWN_PARAMETER", `a page of ${JSON.stringify(page.parameter)}, which this server does not have`);
      const isOfTable = page.kind !== "block" && page.kind !== "openBlock";
      if (isOfTable !== parameter instanceof TableParameter)
        throw badRequest(`a page with ${page.kind} of ${page.parameter}, which is a ${parameter.spec.kind}`);
      if (parameter instanceof TableParameter) {
        if (page.kind !== "block" && page.kind !== "openBlock") parameter.loadPage(page);
      } else if (page.kind === "block" || page.kind === "openBlock") parameter.loadPage(page);
    }
  }

  /** Removes a part, open rounds too; returns the number of rows, blocks and arrays of data. */
  dropPart(part: number): number {
    const { all, sums } = this.#parameters;
    return all.reduce((count, parameter) => count + parameter.dropPart(part), sums.of("data").dropPart(part));
  }

  /** About how many bytes of parameters a part has here, without open rounds and data. */
  weighPart(part: number): number {
    return this.#parameters.all.reduce((bytes, parameter) => bytes + parameter.weighPart(part), 0);
  }

  /** How many rows, blocks and arrays of data a part has here. */
  countPart(part: number): number {
    const { all, sums } = this.#parameters;
    return all.reduce((count, parameter) => count + parameter.countPart(part), sums.of("data").countPart(part));
  }
}

// The state of one part, in pages that can be loaded in any order, and again. Pages are copies, not in the arena.

/** Whose push, and of which clock. */
export type PushedAt = { readonly holder: WorkerIncarnation; readonly clock: number };

export type OpenRowsPage = PushedAt & { readonly kind: "openRows"; readonly part: number; readonly image: RowContributionImage };
export type TablePage =
  | { readonly kind: "rows"; readonly images: RowImages }
  | { readonly kind: "pulledRows"; readonly pulled: PulledImages }
  | OpenRowsPage;

export type OpenBlockPage = PushedAt & { readonly kind: "openBlock"; readonly block: number; readonly image: BlockContributionImage };
export type TensorPage = { readonly kind: "block"; readonly image: BlockImage } | OpenBlockPage;

/** A page of one parameter, by its name. */
type ParameterPage = { readonly parameter: string } & (TablePage | TensorPage);
/** Data beside the parameters. */
type DataPage = { readonly kind: "data"; readonly images: SumImages };
export type PartPage = ParameterPage | DataPage;

/** About what it takes in memory and on the wire. */
export function bytesOfPage(page: PartPage): number {
  return arraysOfPage(page).reduce((sum, { byteLength }) => sum + byteLength, 0);
}

/** Gives the memory of pages back at once: nobody reads them any more. */
export function freePages(pages: Iterable<PartPage>): void {
  for (const page of pages) for (const array of arraysOfPage(page)) freeBuffer(array);
}

/** Its large arrays. */
function arraysOfPage(page: PartPage): readonly ArrayBufferView[] {
  switch (page.kind) {
    case "rows":
    case "data":
      return [page.images.payloads];
    case "pulledRows":
      return [page.pulled.images.payloads];
    case "block":
      return [page.image.values, page.image.slots];
    case "openRows":
    case "openBlock":
      return [page.image.gradients];
  }
}

/**
 * What is a server's and not a part's, for one that comes into the placement: clocks of workers and counts of pushes,
 * the catalogue, and of each parameter its rate, its phases and its claim. All servers of a placement are alike in it
 * when it changes (PlacementChanges.C1, PlacementChanges.C4).
 */
export type MemberImage = {
  readonly pacer: ReturnType<Parameters["pacer"]["save"]>;
  readonly catalogue: readonly CatalogueEntry[];
  readonly parameters: readonly ParameterImage[];
};

export function saveMember(parameters: Parameters): MemberImage {
  return {
    pacer: { ...parameters.pacer.save(), lost: [] }, // the servers that were there tell a worker that lost something
    catalogue: [...parameters.entries()],
    parameters: parameters.all.map((parameter) => parameter.save()),
  };
}

/**
 * Replaces what was here. Handles of workers go on with what comes, as after a restore. Which updates of theirs this
 * server has taken is its own, of the time when it was in a placement before (TakenUpdates.U1). Throws ARENA_FULL.
 */
export function loadMember(parameters: Parameters, { pacer, catalogue, parameters: images }: MemberImage): void {
  const taken = new Map(parameters.all.map((parameter) => [parameter.number, parameter.save().taken]));
  parameters.clearAll();
  parameters.pacer.load(pacer);
  parameters.adopt(catalogue);
  for (const image of images) parameters.get(image.number).load({ ...image, isRestored: true, taken: taken.get(image.number) ?? [] });
}
