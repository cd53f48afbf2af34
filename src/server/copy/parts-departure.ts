// parts-departure — what has left a server with a new placement, until its new owners have it (docs/decisions/0072):
// parts, and for servers that come into the placement what is not a part's. Not the new owner's side: parts-arrival.ts.
//
//   the placement is adopted ──► fenced: nothing of it changes any more ── read, again and again ──► done: dropped
//
// Invariants:
//   PartsDeparture.D1. Until every new owner has said that it is done, this server serves nothing of the placement
//       (Ownership.O5): rows, blocks and open rounds stay as they were, and so do clocks. If a new owner cannot take
//       its parts, they are here, and an earlier placement can come back.
//   PartsDeparture.D2. A new owner that has died, or was restarted, will not be done: the server says so.
//   PartsDeparture.D3. What a new owner has is dropped in small shares between requests, and before parts come again:
//       until then no checkpoint is cut.

import type { Clock } from "../../base/clock.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import type { SspGroupImage } from "../../consistency/ssp-group.ts";
import { PART_COUNT, partOf } from "../../keys/part.ts";
import type { Ownership } from "../ownership.ts";
import type { Parameters } from "../parameters/parameters.ts";
import { bytesOfPage, type PartPage, PartState } from "../parameters/part-state.ts";
import type { WorkerGroups } from "../parameters/worker-groups.ts";
import { type MemberImage, saveMember } from "./member-state.ts";

const LOW = 0xffff_ffffn;
/** Of one answer: all that a server gets in a step, as a rule (PlacementMoves.M2). */
const BATCH_BYTES = 4 * 2 ** 20;
const BATCH_PARTS = 1024;
/** So many parts are dropped in one turn. */
const DROPPED_TOGETHER = 8;

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
  /** By rank: the incarnations of those who take something from here. */
  readonly takers: ReadonlyMap<number, number>;
};

export type PartsDepartureOptions = {
  readonly ownership: Pick<Ownership, "wrongEpoch">;
  readonly parameters: () => Parameters;
  readonly groups: () => WorkerGroups;
  readonly clock: Clock;
};

const NOTHING: Departing = { epoch: 0, parts: new Map(), takers: new Map() };

export class PartsDeparture {
  readonly #ownership: Pick<Ownership, "wrongEpoch">;
  readonly #parameters: () => Parameters;
  readonly #groups: () => WorkerGroups;
  readonly #clock: Clock;
  /** Parts that were taken, and are not dropped yet. */
  readonly #remains: number[] = [];
  #departing = NOTHING;
  /** The ranks that are not done. */
  readonly #waiting = new Set<number>();
  /** Called with the parts that a new owner has taken. */
  onTaken: (parts: readonly number[]) => void = () => {};

  constructor({ ownership, parameters, groups, clock }: PartsDepartureOptions) {
    this.#ownership = ownership;
    this.#parameters = parameters;
    this.#groups = groups;
    this.#clock = clock;
  }

  /** Whether parts that were taken are still here (PartsDeparture.D3). */
  get hasRemains(): boolean {
    return this.#remains.length > 0;
  }

  /** Whether somebody has still to take something. */
  get isUnderWay(): boolean {
    return this.#waiting.size > 0;
  }

  /** What left with a placement before is as if it had not, unless it is done. */
  begin(departing: Departing): void {
    this.#drop(Infinity);
    this.#departing = departing;
    this.#waiting.clear();
    for (const rank of departing.takers.keys()) this.#waiting.add(rank);
  }

  /** Why it will never be over, if so; `incarnationOf` gives that of a server that lives (PartsDeparture.D2). */
  failure(incarnationOf: (rank: number) => number | undefined): WeighbridgeError | undefined {
    for (const rank of this.#waiting) {
      if (incarnationOf(rank) === this.#departing.takers.get(rank)) continue;
      return new WeighbridgeError("NODE_DEAD", `server ${rank} is dead, and has not taken its parts`);
    }
    return undefined;
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
    let [part, byteCount, partCount] = [from, 0, 0];
    for (; part < PART_COUNT && byteCount < BATCH_BYTES && partCount < BATCH_PARTS; part++) {
      if (this.#departing.parts.get(part) !== owner) continue;
      partCount++;
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

  /** This owner has its parts: they are not held here any more. Throws as `read`. */
  done(owner: number, epoch: number): void {
    this.#check(epoch);
    if (!this.#waiting.delete(owner)) return;
    const parts = [...this.#departing.parts].filter(([, to]) => to === owner).map(([part]) => part);
    if (parts.length > 0 && !this.hasRemains) this.#clock.soon(() => this.#dropSome());
    this.#remains.push(...parts);
    this.#groups().drop((key) => this.#isOf(owner, key), this.#ownership.wrongEpoch(epoch - 1)); // they ask where the parts are now
    this.onTaken(parts);
  }

  #dropSome(): void {
    this.#drop(DROPPED_TOGETHER);
    if (this.hasRemains) this.#clock.after(0, () => this.#dropSome());
  }

  #drop(countMax: number): void {
    const state = new PartState(this.#parameters());
    for (const part of this.#remains.splice(0, countMax)) state.dropPart(part);
  }

  #check(epoch: number): void {
    if (epoch >= this.#departing.epoch) return;
    const message = `parts have left with the placement of epoch ${this.#departing.epoch}, not ${epoch}`;
    throw new WeighbridgeError("WRONG_EPOCH", message, { retryable: true });
  }
}
