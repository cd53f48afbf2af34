// parts-departure — what has left a server with a new placement, until its new owners have it (docs/decisions/0072):
// parts, and for servers that come into the placement what is not a part's. Not the new owner's side: parts-arrival.ts.
//
//   the placement is adopted ──► fenced: nothing of it changes ── read, again and again ──► handed over: dropped
//
// Invariants:
//   PartsDeparture.D1. Until all parts are handed over this server serves nothing of the placement (Ownership.O5):
//       rows, blocks, open rounds and clocks stay as they were. If the parts cannot be handed over, all of them are
//       still here, and the placement before comes back.
//   PartsDeparture.D3. What was handed over is dropped part by part, between requests; all of it before parts come
//       again, and before a checkpoint is cut.

import type { Clock } from "../../base/clock.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import type { SspGroupImage } from "../../consistency/ssp-group.ts";
import { PART_COUNT, partOf } from "../../keys/part.ts";
import type { PartMarks } from "../../store/table-parts.ts";
import type { Ownership } from "../ownership.ts";
import type { Parameters } from "../parameters/parameters.ts";
import { bytesOfPage, type MemberImage, type PartPage, PartState, saveMember } from "../parameters/part-state.ts";
import type { WorkerGroups } from "../parameters/worker-groups.ts";

const LOW = 0xffff_ffffn;
/** Of one answer: all that a server gets in a step, as a rule (PlacementMoves.M2). */
const BATCH_BYTES = 4 * 2 ** 20;
const BATCH_PARTS = 1024;

/**
 * Some parts of one new owner, up to `to`; what is not a part's comes with the first of them, where it is asked for.
 */
export type DepartedParts = {
  readonly to: number;
  readonly pages: readonly PartPage[];
  /** Groups of workers whose keys lie in the parts; with the first of them. */
  readonly groups: readonly SspGroupImage[];
  readonly member?: MemberImage | undefined;
};

/** What leaves with a placement. */
export type Departing = {
  readonly epoch: number;
  /** By part: its new owner, a rank. */
  readonly parts: ReadonlyMap<number, number>;
};

export type PartsDepartureOptions = {
  readonly ownership: Pick<Ownership, "wrongEpoch">;
  readonly parameters: () => Parameters;
  readonly groups: () => WorkerGroups;
  readonly clock: Clock;
};

const NOTHING: Departing = { epoch: 0, parts: new Map() };

export class PartsDeparture {
  readonly #ownership: Pick<Ownership, "wrongEpoch">;
  readonly #parameters: () => Parameters;
  readonly #groups: () => WorkerGroups;
  readonly #clock: Clock;
  /** Parts that were handed over, and are not dropped yet. */
  readonly #remains: number[] = [];
  #departing = NOTHING;

  constructor({ ownership, parameters, groups, clock }: PartsDepartureOptions) {
    this.#ownership = ownership;
    this.#parameters = parameters;
    this.#groups = groups;
    this.#clock = clock;
  }

  /** Drops all that was handed over and is still here (PartsDeparture.D3). */
  dropAll(): void {
    const state = new PartState(this.#parameters());
    for (const part of this.#remains.splice(0)) state.dropPart(part);
  }

  /** What left with a placement before is as if it had not, unless it was handed over. */
  begin(departing: Departing): void {
    this.dropAll();
    this.#departing = departing;
  }

  /**
   * The next parts of this owner; none where this server holds nothing of it, since it was restarted. Throws a
   * retryable WRONG_EPOCH when the placement of that epoch is over, HANDLER_FAILED.
   */
  read(
    owner: number,
    { epoch, from, asMember }: { readonly epoch: number; readonly from: number; readonly asMember: boolean },
  ): DepartedParts {
    this.#check(epoch);
    const parameters = this.#parameters();
    const member = asMember ? saveMember(parameters) : undefined;
    const state = new PartState(parameters);
    const pages: PartPage[] = [];
    let marks: PartMarks | undefined;
    let [part, byteCount, partCount] = [from, 0, 0];
    for (; part < PART_COUNT && byteCount < BATCH_BYTES && partCount < BATCH_PARTS; part++) {
      if (this.#departing.parts.get(part) !== owner) continue;
      partCount++;
      marks ??= state.marks();
      if (marks[part] === 0) continue;
      for (const page of state.savePart(part)) {
        pages.push(page);
        byteCount += bytesOfPage(page);
      }
    }
    const groups = from === 0 ? this.#groups().ssp.save((key) => this.#isOf(owner, key)) : [];
    return { to: part, pages, groups, ...(member === undefined ? {} : { member }) };
  }

  /** Whether a group of this key goes to this owner. */
  #isOf(owner: number, key: bigint): boolean {
    return this.#departing.parts.get(partOf(Number(key & LOW), Number(key >> 32n))) === owner;
  }

  /** The new owners have their parts: they are not held here any more. */
  handOver(): void {
    const { epoch, parts } = this.#departing;
    if (parts.size === 0) return;
    if (this.#remains.length === 0) this.#clock.soon(() => this.#dropSome());
    this.#remains.push(...parts.keys());
    this.#departing = { epoch, parts: new Map() };
    const isGone = (key: bigint): boolean => parts.has(partOf(Number(key & LOW), Number(key >> 32n)));
    this.#groups().drop(isGone, this.#ownership.wrongEpoch(epoch - 1)); // they ask where the parts are now
  }

  /** Up to a part that has something here. */
  #dropSome(): void {
    const state = new PartState(this.#parameters());
    for (let count = 0; count === 0 && this.#remains.length > 0; ) count = state.dropPart(this.#remains.shift() as number);
    if (this.#remains.length > 0) this.#clock.after(0, () => this.#dropSome());
  }

  #check(epoch: number): void {
    if (epoch >= this.#departing.epoch) return;
    const message = `parts have left with the placement of epoch ${this.#departing.epoch}, not ${epoch}`;
    throw new WeighbridgeError("WRONG_EPOCH", message, { retryable: true });
  }
}
