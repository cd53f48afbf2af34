// row-request — one batch on its way through the workers: this worker requests the batch's rows from their owners,
// learns which of its own rows the others request, and moves those into its tiers. tiered-rows.ts does the rest.
//
//   RowRequest: keys to the owners ─► answers: what members request here ─► admit: rows are in the tiers ─► release
//   BatchRows:  ids ─► those with rows ─► distinct, by owner: row 0, 1, 2 … ─► a slot for each row ─► one for each id
//   ServedRows: keys that the members requested, by rank (a row may occur several times) ─► each of them once
//
// Invariants:
//   BatchRows.A1. Rows of one owner are adjacent, owners by rank.
//   ServedRows.S1. Members are in the order of their ranks: sums over them have the same bits everywhere.

import { assert } from "../../base/assert.ts";
import { badRequest } from "../../base/errors.ts";
import type { Arena } from "../../kernel/arena.ts";
import { KEY_BYTES, WORD_BYTES } from "../../kernel/elements.ts";
import type { RowPlan, RowPlanner } from "../../worker/router/row-plan.ts";
import type { RowMembers } from "./row-members.ts";
import * as messages from "./row-messages.ts";
import { NO_SLOT } from "./row-source.ts";
import type { RowTiers } from "./row-tiers.ts";

export type RowRequestOptions = {
  readonly members: RowMembers;
  /** By owner, as the members have them. */
  readonly planner: RowPlanner;
  /** Left out: this worker does not know its next batch yet. */
  readonly ids: ArrayLike<number> | undefined;
  readonly rowCountMax: number;
  /** A failure is made up for when the batch is acquired. */
  readonly isHint: boolean;
};

export class RowRequest {
  /** Undefined if this worker did not know its next batch, or had no memory for a plan. */
  readonly requested: BatchRows | undefined;
  readonly failure: unknown;
  /** What each member requests from this one, by position. */
  readonly answers: Promise<readonly messages.KeyRequest[]>;
  #served: ServedRows | undefined;
  #isAdmitted = false;

  /** Sends the requests to the owners at once. Throws nothing: a failure is reported when rows are sent. */
  constructor({ members, planner, ids, rowCountMax, isHint }: RowRequestOptions) {
    try {
      this.requested = ids === undefined ? undefined : new BatchRows(planner, ids, rowCountMax);
    } catch (thrown) {
      if (!isHint) this.failure = thrown;
    }
    const isKnown = this.requested !== undefined || this.failure !== undefined;
    const outgoing = members.ranks.map((_, i) => messages.encodeKeyRequest({ isKnown, keys: this.#keysOf(i) }));
    this.answers = members.exchange(outgoing).then((incoming) => incoming.map(messages.decodeKeyRequest));
    this.answers.catch(() => {}); // `acquire` reports it
  }

  /** The rows that this worker owns and any worker uses; undefined before `admit`. */
  get served(): ServedRows | undefined {
    return this.#served;
  }

  /** Moves the rows that are requested here into the tiers, once. */
  async admit(requests: readonly messages.KeyRequest[], planner: RowPlanner, tiers: RowTiers): Promise<ServedRows> {
    this.#served ??= new ServedRows(
      planner,
      requests.map(({ keys }) => keys),
    );
    const served = this.#served;
    if (!this.#isAdmitted) await tiers.admit(served.keys, served.keyCount);
    this.#isAdmitted = true;
    return served;
  }

  release(): void {
    this.requested?.release();
    this.#served?.release();
    this.#served = undefined;
  }

  #keysOf(position: number): Uint32Array {
    const part = this.requested?.parts[position];
    return this.requested === undefined || part === undefined || part.to === part.from ? new Uint32Array(0) : this.requested.keysOf(part);
  }
}

/** The rows from `from` up to `to`, of one owner. */
export type BatchRowsPart = { readonly from: number; readonly to: number };

export class BatchRows {
  readonly ids: Float64Array;
  /** Ids that name rows, repeated ones included. */
  readonly namedCount: number;
  readonly rowCount: number;
  /** One for each member, possibly empty. */
  readonly parts: readonly BatchRowsPart[];
  /** The slot of each row; set when they have arrived. */
  readonly rowSlots: Int32Array;
  readonly #arena: Arena;
  readonly #plan: RowPlan | undefined;

  /** Rows are below `rowCountMax`. Plans with the members' placement. Throws ARENA_FULL. */
  constructor(planner: RowPlanner, ids: ArrayLike<number>, rowCountMax: number) {
    this.#arena = planner.arena;
    this.ids = new Float64Array(ids);
    const halves = new Uint32Array(2 * ids.length);
    let count = 0;
    for (let i = 0; i < this.ids.length; i++) {
      const id = this.ids[i] as number;
      if (!isRow(id, rowCountMax)) continue;
      halves[2 * count] = id; // modulo 2^32
      halves[2 * count + 1] = id / 2 ** 32;
      count++;
    }
    this.namedCount = count;
    this.#plan = count === 0 ? undefined : planner.plan(new BigUint64Array(halves.buffer, 0, count));
    this.rowCount = this.#plan?.rowCount ?? 0;
    this.parts = partsOf(this.#plan, planner);
    this.rowSlots = new Int32Array(this.rowCount).fill(NO_SLOT);
  }

  /** Whether a batch is this one. */
  isOf(ids: ArrayLike<number>): boolean {
    if (ids.length !== this.ids.length) return false;
    for (let i = 0; i < ids.length; i++) if (!Object.is(ids[i], this.ids[i])) return false;
    return true;
  }

  /** Where the keys of the rows are in the arena, until `release`. */
  get keysAddress(): number {
    return this.#plan?.keysAddress ?? 0;
  }

  /** The keys of an owner's rows, as low and high halves. */
  keysOf({ from, to }: BatchRowsPart): Uint32Array {
    const at = this.keysAddress >>> 2;
    return this.#arena.words.subarray(at + 2 * from, at + 2 * to) as Uint32Array;
  }

  /** The slot of each id, once those of the rows are set. */
  idSlots(rowCountMax: number): Int32Array {
    const slots = new Int32Array(this.ids.length).fill(NO_SLOT);
    const plan = this.#plan;
    if (plan === undefined) return slots;
    const list = this.#arena.allocate(this.rowCount * WORD_BYTES);
    new Int32Array(this.#arena.memory.buffer, list, this.rowCount).set(this.rowSlots);
    const named = new Int32Array(this.#arena.memory.buffer, plan.wordsForCaller(list), this.namedCount);
    if (this.namedCount === slots.length) slots.set(named);
    else {
      let at = 0;
      for (let i = 0; i < slots.length; i++) if (isRow(this.ids[i] as number, rowCountMax)) slots[i] = named[at++] as number;
    }
    this.#arena.release(list, this.rowCount * WORD_BYTES);
    return slots;
  }

  /** Releases the plan's memory: of the keys only the slots remain. */
  release(): void {
    this.#plan?.release();
  }
}

function isRow(id: number, rowCountMax: number): boolean {
  return id >= 0 && id < rowCountMax && Number.isInteger(id);
}

function partsOf(plan: RowPlan | undefined, { ranks }: RowPlanner): BatchRowsPart[] {
  let at = 0;
  return ranks.map((rank) => {
    const part = plan?.parts.find(({ server }) => server === rank);
    assert(part === undefined || part.from === at, "BatchRows.A1");
    const from = at;
    at += part?.keys.length ?? 0;
    return { from, to: at };
  });
}

export class ServedRows {
  readonly #arena: Arena;
  /** Of the requested keys, one member after the other. */
  readonly #address: number;
  readonly #byteCount: number;
  /** Where each member's keys begin, and where the last one's end. */
  readonly #starts: readonly number[];
  readonly #plan: RowPlan | undefined;
  /** The distinct keys. */
  readonly keys: number;
  readonly keyCount: number;

  /** `requested` has the halves of the keys of each member. Throws ARENA_FULL. */
  constructor(planner: RowPlanner, requested: readonly Uint32Array[]) {
    const { arena } = planner;
    this.#arena = arena;
    const starts = [0];
    for (const halves of requested) starts.push((starts.at(-1) as number) + halves.length / 2);
    const total = starts.at(-1) as number;
    this.#starts = starts;
    this.#byteCount = Math.max(1, total) * KEY_BYTES;
    this.#address = arena.allocate(this.#byteCount);
    for (const [i, halves] of requested.entries()) arena.words.set(halves, this.keysOf(i).address >>> 2);
    const isDistinct = requested.filter(({ length }) => length > 0).length < 2;
    this.#plan = isDistinct ? undefined : planner.plan(new BigUint64Array(arena.memory.buffer, this.#address, total));
    this.keys = this.#plan?.keysAddress ?? this.#address;
    this.keyCount = this.#plan?.rowCount ?? total;
  }

  /** The keys that the member at this position requested. */
  keysOf(position: number): { readonly address: number; readonly keyCount: number } {
    const from = this.#starts[position] as number;
    return { address: this.#address + from * KEY_BYTES, keyCount: (this.#starts[position + 1] as number) - from };
  }

  /** Copies the keys at these positions of a member's request. Throws BAD_REQUEST. */
  copyKeys(position: number, positions: Uint32Array, out: number): void {
    const { address, keyCount } = this.keysOf(position);
    const { words } = this.#arena;
    for (let i = 0; i < positions.length; i++) {
      const index = positions[i] as number;
      if (index >= keyCount) throw badRequest(`a worker sent a gradient for row ${index} of the ${keyCount} it requested`);
      words[(out >>> 2) + 2 * i] = words[(address >>> 2) + 2 * index] as number;
      words[(out >>> 2) + 2 * i + 1] = words[(address >>> 2) + 2 * index + 1] as number;
    }
  }

  release(): void {
    this.#plan?.release();
    this.#arena.release(this.#address, this.#byteCount);
  }
}
