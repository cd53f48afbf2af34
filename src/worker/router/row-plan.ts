// row-plan — what a request for rows of a table sends where: its keys, each once, by the server that owns them;
// gradients summed and sorted to match, and pulled rows brought back to where the caller named them. A request without
// repeated keys to one server needs none of that and travels from and to the caller's own arrays.
//
//   caller's keys ─► unique keys (first occurrences) ─► ascending, where asked for ─► sorted by owner ─► parts, one per
//   server
//
// Invariants:
//   RowPlan.R1. Every key is sent once; the gradients of its occurrences were added in the order of the list. Of values
//       (assign, min, max) the last, the least or the greatest is sent.
//   RowPlan.R2. What the plan allocated lives until `release`: calls send from it, again after a reconnect, and answers
//       land in it.
//   RowPlan.R3. A plan is made by one placement, whose epoch it has; the next one by the newest that is known.

import { AssertionError } from "../../base/assert.ts";
import type { Arena } from "../../kernel/arena.ts";
import {
  type DuplicateKernels,
  duplicateScratchBytes,
  joinDuplicates,
  type MergeNumber,
  type RowJoin,
  simdDuplicateKernels,
} from "../../kernel/duplicate-kernels.ts";
import { FLOAT_BYTES, INDEX_BYTES, KEY_BYTES } from "../../kernel/elements.ts";
import type { Kernels } from "../../kernel/kernels.ts";
import { type PartitionKernels, partitionScratchBytes, simdPartitionKernels } from "../../kernel/partition-kernels.ts";
import { SimdKernels } from "../../kernel/simd-kernels.ts";
import { PART_BITS, PART_COUNT, Placement, partOf } from "../../keys/placement.ts";
import { sortKeys } from "../../keys/sort-keys.ts";
import { ArenaSpans } from "../arena-spans.ts";

const OWNER_BYTES = 2;
/** Rows are copied out of the caller's array, and into it, by so many bytes: a small share of a second-level cache. */
const PIECE_BYTES = 64 * 1024;
/**
 * A piece begins half a page into its span. Spans mostly begin with a page, large arrays of JavaScript 16 bytes behind
 * the beginning of one, and memmove's `rep movsb` copies at a twentieth of its speed on some processors where the
 * target lies 1 to 31 bytes further into a page than the source: rows came back to such an array at 1.6 GB/s.
 */
const PIECE_OFFSET = 2048;

/** What one server is asked for: the rows from `from` on of the plan's order. */
export type RowPart = { readonly server: number; readonly from: number; readonly keys: BigUint64Array };

/** Some rows of a part that travel together: from `from` up to `to` in the plan's order. */
export type RowFrame = RowPart & {
  readonly to: number;
  /** The first of its server. */
  readonly opens: boolean;
  /** Of the placement by which it was cut. */
  readonly epoch: number;
};

/** Has the placement that is known when a plan is made. */
export type PlacementSource = { readonly placement: Placement | undefined };

/** The memory and kernels that plans are made with; one per worker. */
export class RowPlanner {
  readonly arena: Arena;
  readonly kernels: Kernels;
  readonly duplicates: DuplicateKernels;
  readonly partition: PartitionKernels;
  /** The owners of the parts where kernels read them. */
  readonly owners: number;
  /** Keys the duplicates' hash. */
  readonly secret: number;
  readonly #source: PlacementSource;
  #placement: Placement | undefined;

  /** Plans by the placement that `source`, the router, has at each plan. */
  constructor(arena: Arena, source: PlacementSource, secret: number) {
    this.arena = arena;
    this.kernels = new SimdKernels(arena);
    this.duplicates = simdDuplicateKernels(arena);
    this.partition = simdPartitionKernels(arena);
    this.secret = secret;
    this.owners = arena.allocate(PART_COUNT * OWNER_BYTES);
    this.#source = source;
  }

  /** Plans with parts dealt out among these ranks in turn, whatever the placement of the servers is. */
  static among(arena: Arena, ranks: readonly number[], secret: number): RowPlanner {
    const placement = new Placement(
      { servers: ranks, epoch: 1 },
      ({ length }) =>
        (part) =>
          part % length,
    );
    return new RowPlanner(arena, { placement }, secret);
  }

  /** The placement by which plans are made now; the kernels' owners are those of it. */
  get placement(): Placement {
    const { placement } = this.#source;
    if (placement === undefined) throw new AssertionError("rows are planned where there are servers");
    if (placement !== this.#placement) new Uint16Array(this.arena.memory.buffer, this.owners, PART_COUNT).set(placement.owners);
    this.#placement = placement;
    return placement;
  }

  /** Of all among whom rows are dealt out, ascending. */
  get ranks(): readonly number[] {
    return this.placement.servers;
  }

  /** The owner of a key, given as its u32 halves. */
  ownerOf(low: number, high: number): number {
    return this.placement.ownerOf(partOf(low, high));
  }

  /** A planner in another arena that follows the same placement. */
  inArena(arena: Arena): RowPlanner {
    return new RowPlanner(arena, this.#source, this.secret);
  }

  /**
   * Plans keys of a call that is cut again, and with them perhaps others; `make` gives what takes its place. The plans
   * are released with it. Throws ARENA_FULL and what `make` throws, with nothing left behind.
   */
  again<T extends object>(
    keys: BigUint64Array,
    make: (plan: RowPlan, other: RowPlan) => T,
    { others, isAscending = false }: { readonly others?: BigUint64Array | undefined; readonly isAscending?: boolean } = {},
  ): T & { readonly release: () => void } {
    const plan = this.plan(keys, isAscending);
    let other = plan;
    const release = (): void => {
      plan.release();
      other.release();
    };
    try {
      if (others !== undefined) other = this.plan(others, isAscending);
      return { ...make(plan, other), release };
    } catch (thrown) {
      release();
      throw thrown;
    }
  }

  /**
   * `isAscending`: keys ascend in every part, and lie in the arena. `spans`: what the plan allocates, with more of the
   * same call. Throws ARENA_FULL, nothing left behind.
   */
  plan(keys: BigUint64Array, isAscending = false, spans: ArenaSpans = new ArenaSpans(this.arena)): RowPlan {
    const plan = new RowPlan(this, keys, isAscending, spans);
    try {
      plan.prepare();
      return plan;
    } catch (thrown) {
      plan.release();
      throw thrown;
    }
  }
}

export class RowPlan {
  readonly keyCount: number;
  /** One for each server that owns some of the keys. */
  parts: readonly RowPart[] = [];
  /** Of the placement that it was made by (RowPlan.R3). */
  epoch = 0;
  /** Where the keys of the parts lie in the arena, one part after the other. */
  keysAddress = 0;
  readonly #planner: RowPlanner;
  readonly #keys: BigUint64Array;
  readonly #isAscending: boolean;
  readonly #spans: ArenaSpans;
  #uniqueCount: number;
  /** For each of the caller's keys its index among the unique ones; 0 when they all are. */
  #indexes = 0;
  /** For each row in the order of the parts its index among the unique ones; 0 when that is the same order. */
  #sources = 0;
  /** For each of the caller's keys its row in the order of the parts; 0 when that is the same order. */
  #positions = 0;

  constructor(planner: RowPlanner, keys: BigUint64Array, isAscending: boolean, spans: ArenaSpans) {
    this.#planner = planner;
    this.#spans = spans;
    this.#keys = keys;
    this.#isAscending = isAscending;
    this.keyCount = keys.length;
    this.#uniqueCount = keys.length;
  }

  /** Rows that travel. */
  get rowCount(): number {
    return this.#uniqueCount;
  }

  /** For the planner alone. */
  prepare(): void {
    const { arena, placement } = this.#planner;
    const { keyCount } = this;
    this.epoch = placement.epoch;
    const keys = this.#spans.take(keyCount * KEY_BYTES);
    this.keysAddress = keys;
    new BigUint64Array(arena.memory.buffer, keys, keyCount).set(this.#keys);
    this.#findDuplicates(keys);
    if (this.#isAscending) this.#sortAscending(keys);
    if (placement.servers.length > 1) this.#sortByOwner(keys, placement);
    this.#findPositions();
    if (placement.servers.length > 1) return;
    const isGiven = this.#isAsGiven && !this.#isAscending;
    this.parts = [{ server: placement.servers[0] ?? 0, from: 0, keys: isGiven ? this.#keys : this.#keysAt(keys, this.#uniqueCount) }];
  }

  /** The parts cut into frames of so many rows. */
  frames(rowsPerFrame: number): RowFrame[] {
    const { epoch } = this;
    const frames: RowFrame[] = [];
    for (const { server, from, keys } of this.parts) {
      for (let at = 0; at < keys.length; at += rowsPerFrame) {
        const end = Math.min(keys.length, at + rowsPerFrame);
        frames.push({ server, keys: keys.subarray(at, end), from: from + at, to: from + end, opens: at === 0, epoch });
      }
    }
    return frames;
  }

  /**
   * The gradients of the rows in the order of the parts: the caller's own array where nothing had to be done. `merge`
   * is for values (RowPlan.R1), and for rows that no kernel adds up.
   */
  gradients(values: Float32Array, width: number, merge?: MergeNumber | RowJoin): Float32Array {
    if (this.#isAsGiven) return values;
    const { arena, duplicates, partition } = this.#planner;
    const rows = this.#spans.take(this.#uniqueCount * width * FLOAT_BYTES);
    const piece = this.#takePiece(width);
    let known = 0;
    for (let from = 0; from < this.keyCount; from += piece.rowCount) {
      const count = Math.min(piece.rowCount, this.keyCount - from);
      const positions = this.#positions + from * INDEX_BYTES;
      arena.floats.set(values.subarray(from * width, (from + count) * width), piece.address >>> 2);
      if (this.#indexes === 0) partition.scatterByIndex(piece.address, positions, count, width, rows);
      else {
        const indexes = this.#indexes + from * INDEX_BYTES;
        known = joinDuplicates(duplicates, merge, {
          rows: piece.address,
          keyCount: count,
          width,
          indexes,
          rowsTo: positions,
          known,
          out: rows,
        });
      }
    }
    return this.#floatsAt(rows, this.#uniqueCount * width);
  }

  /** A word for each of the caller's keys, none of which is named twice, in the order of the parts. */
  words(values: Uint32Array): Uint32Array {
    // Bit by bit.
    const { buffer, byteOffset, length } = this.gradients(new Float32Array(values.buffer, values.byteOffset, values.length), 1);
    return new Uint32Array(buffer, byteOffset, length);
  }

  /** Where the rows of the parts land, one after the other; `deliver` brings them to the caller's array. */
  landing(into: Float32Array, width: number): Float32Array {
    return this.#isAsGiven ? into : this.#floatsAt(this.#spans.take(this.#uniqueCount * width * FLOAT_BYTES), this.#uniqueCount * width);
  }

  /** Fills `into`, a row for each of the caller's keys, from what came in. */
  deliver(landed: Float32Array, into: Float32Array, width: number): void {
    if (this.#isAsGiven) return;
    const piece = this.#takePiece(width);
    for (let from = 0; from < this.keyCount; from += piece.rowCount) {
      const count = Math.min(piece.rowCount, this.keyCount - from);
      this.#planner.partition.gatherByIndex(landed.byteOffset, this.#positions + from * INDEX_BYTES, count, width, piece.address);
      into.set(this.#floatsAt(piece.address, count * width), from * width);
    }
  }

  /** Where a list of one u32 per row, in part order, stands as a list with one per key of the caller. */
  wordsForCaller(words: number): number {
    if (this.#isAsGiven) return words;
    const list = this.#spans.take(this.keyCount * INDEX_BYTES);
    this.#planner.partition.gatherByIndex(words, this.#positions, this.keyCount, 1, list);
    return list;
  }

  /** Gives the memory back, once no call of the plan is open (RowPlan.R2). */
  release(): void {
    this.#spans.release();
  }

  /** Whether the caller's arrays can be sent and filled as they are. */
  get #isAsGiven(): boolean {
    return this.#positions === 0;
  }

  #findDuplicates(keys: number): void {
    const { keyCount } = this;
    const scratch = this.#spans.take(duplicateScratchBytes(keyCount));
    const indexes = this.#spans.take(keyCount * INDEX_BYTES);
    this.#uniqueCount = this.#planner.duplicates.findDuplicates(keys, keyCount, this.#planner.secret, scratch, keys, indexes) >>> 0;
    if (this.#uniqueCount < keyCount) this.#indexes = indexes;
  }

  #sortAscending(keys: number): void {
    const { arena } = this.#planner;
    const keyCount = this.#uniqueCount;
    if (this.#planner.kernels.checkAscending(keys, keyCount) < 0) return;
    this.#sources = this.#spans.take(keyCount * INDEX_BYTES);
    const { words } = arena;
    sortKeys(
      words.subarray(keys >>> 2, (keys >>> 2) + 2 * keyCount),
      words.subarray(this.#sources >>> 2, (this.#sources >>> 2) + keyCount),
    );
  }

  #sortByOwner(keys: number, placement: Placement): void {
    const { arena, partition, owners } = this.#planner;
    const keyCount = this.#uniqueCount;
    const ownerCount = placement.servers.length;
    const scratch = this.#spans.take(partitionScratchBytes({ keyCount, ownerCount }));
    const spans = this.#spans.take((ownerCount + 1) * INDEX_BYTES);
    const sorted = this.#spans.take(keyCount * KEY_BYTES);
    const sources = this.#spans.take(keyCount * INDEX_BYTES);
    partition.partitionKeys(keys, keyCount, owners, PART_BITS, ownerCount, scratch, spans, sorted, sources);
    const parts: RowPart[] = [];
    placement.servers.forEach((server, owner) => {
      const from = arena.words[(spans >>> 2) + owner] as number;
      const to = arena.words[(spans >>> 2) + owner + 1] as number;
      if (to > from) parts.push({ server, from, keys: this.#keysAt(sorted + from * KEY_BYTES, to - from) });
    });
    this.parts = parts;
    this.keysAddress = sorted;
    if (this.#sources !== 0) {
      const positions = arena.words.subarray(this.#sources >>> 2, (this.#sources >>> 2) + keyCount);
      for (let at = sources >>> 2; at < (sources >>> 2) + keyCount; at++) arena.words[at] = positions[arena.words[at] as number] as number;
    }
    this.#sources = sources;
  }

  #findPositions(): void {
    if (this.#sources === 0) {
      this.#positions = this.#indexes;
      return;
    }
    const { words } = this.#planner.arena;
    const ofUnique = this.#spans.take(this.#uniqueCount * INDEX_BYTES);
    const [first, sources] = [ofUnique >>> 2, this.#sources >>> 2];
    for (let position = 0; position < this.#uniqueCount; position++) words[first + (words[sources + position] as number)] = position;
    this.#positions = ofUnique;
    if (this.#indexes === 0) return;
    this.#positions = this.#spans.take(this.keyCount * INDEX_BYTES);
    this.#planner.partition.gatherByIndex(ofUnique, this.#indexes, this.keyCount, 1, this.#positions);
  }

  /** A few rows' worth of memory that stays in the cache while the caller's array goes through it. */
  #takePiece(width: number): { readonly address: number; readonly rowCount: number } {
    const rowCount = Math.max(1, Math.min(this.keyCount, Math.floor(PIECE_BYTES / (width * FLOAT_BYTES))));
    return { address: this.#spans.take(PIECE_OFFSET + rowCount * width * FLOAT_BYTES) + PIECE_OFFSET, rowCount };
  }

  #keysAt(address: number, count: number): BigUint64Array {
    return new BigUint64Array(this.#planner.arena.memory.buffer, address, count);
  }

  #floatsAt(address: number, count: number): Float32Array {
    return this.#planner.arena.floats.subarray(address >>> 2, (address >>> 2) + count);
  }
}
