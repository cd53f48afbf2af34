// row-contribution — what workers pushed at one clock to a table with sync updates, until the round is complete, and
// the memory in which it is reduced. consistency/pacer decides when. Gradients of one key add up; of values (assign,
// min, max) the last, the least or the greatest counts, in the order of the workers' ranks.
//
//   chunk          keys and gradients of one frame
//   round memory   one span for all chunks of a clock: keys │ gradients │ indexes │ scratch; one for the store's list
//
// Invariants:
//   RowContribution.R1. A round is reduced in memory that was allocated when its chunks came: applying it cannot fail.
//   RowContribution.R2. A chunk that finds no room changes nothing.
//   RowContribution.R3. A round's memory goes with its last chunk, applied or dropped.
//   RowContribution.R4. Pushes of a worker to one key at one clock are joined first, in their order, and then with
//       those of others (UpdateRounds.U3). Joining happens now and then, so that repeated pushes to the same rows take
//       the memory of a few; its timing does not change the bits.

import { assert } from "../../base/assert.ts";
import type { ConsistencyPhases } from "../../consistency/consistency-phases.ts";
import type { CompleteRound } from "../../consistency/update-rounds.ts";
import { type Arena, arenaFull } from "../../kernel/arena.ts";
import { duplicateScratchBytes, joinDuplicates, type MergeNumber, type RowJoin } from "../../kernel/duplicate-kernels.ts";
import { FLOAT_BYTES, INDEX_BYTES, KEY_BYTES } from "../../kernel/elements.ts";
import { partOf } from "../../keys/part.ts";
import { markParts, type PartMarks } from "../../store/table-parts.ts";
import type { ParameterHost } from "./parameter-host.ts";
import type { ServerUpdate } from "./parameter-pace.ts";

/**
 * Repeated pushes are joined once there are so many keys more than twice those left the last time (RowContribution.R4).
 */
const JOINED_KEYS_MIN = 4096;

/** All gradients of one clock, summed by key. */
export type RowsRound = {
  readonly gradients: number;
  readonly gradientScale: number;
  readonly clock: number;
  /** An upper bound of the gradients' elements. */
  readonly magnitude: number;
};

/** How rows were pushed; `pushNumber` identifies a push of a worker, undefined: unknown. */
type PushedRows = { readonly scale: number; readonly magnitude: number; readonly pushNumber?: number | undefined };

/** What rounds of rows are applied to. */
export type RoundTarget = {
  /** 32-bit words of a row. */
  readonly words: number;
  /** How several updates for one row become one; undefined for gradients of f32, which add up. */
  readonly join: MergeNumber | RowJoin | undefined;
  readonly phases: ConsistencyPhases;
  /** How many workers pushed to the table at this clock, wherever their rows lie. */
  pusherCount(clock: number): number;
  applyRound(keys: number, keyCount: number, round: RowsRound): void;
  /** Runs an update that no caller waits for (ParameterUpdater). */
  inRound<T>(act: () => T): T | undefined;
};

/** Keys and gradients of one frame, in memory of their own. */
type Chunk = { readonly keys: number; readonly gradients: number; keyCount: number; readonly keyCountMax: number };

/** What a worker pushed at one clock to the rows of one part, in the order in which it did. */
export type RowContributionImage = { readonly keys: BigUint64Array; readonly gradients: Float32Array; readonly magnitude: number };

/** The memory of a table's open rounds, by clock. */
export class RoundMemories {
  readonly #arena: Arena;
  readonly #width: number;
  readonly #byClock = new Map<number, RoundMemory>();

  constructor(arena: Arena, width: number) {
    this.#arena = arena;
    this.#width = width;
  }

  /** Open rounds that have memory. */
  get count(): number {
    return this.#byClock.size;
  }

  at(clock: number): RoundMemory {
    const known = this.#byClock.get(clock);
    if (known !== undefined) return known;
    const memory = new RoundMemory(this.#arena, this.#width, clock, () => this.#byClock.delete(clock));
    this.#byClock.set(clock, memory);
    return memory;
  }
}

class RoundMemory {
  readonly clock: number;
  readonly #arena: Arena;
  readonly #width: number;
  readonly #emptied: () => void;
  #keyCount = 0;
  /** The number of keys that fit. */
  #capacity = 0;
  #address = 0;
  #list = 0;

  constructor(arena: Arena, width: number, clock: number, emptied: () => void) {
    this.#arena = arena;
    this.#width = width;
    this.clock = clock;
    this.#emptied = emptied;
  }

  /** Room for so many more keys. Throws ARENA_FULL, nothing changed (RowContribution.R2). */
  grow(keyCount: number): void {
    const needed = this.#keyCount + keyCount;
    if (needed > this.#capacity) this.#resize(needed);
    this.#keyCount = needed;
  }

  /** So many keys are dropped (RowContribution.R3). */
  shrink(keyCount: number): void {
    this.#keyCount -= keyCount;
    assert(this.#keyCount >= 0, "more keys are dropped than came");
    if (this.#keyCount === 0) this.#releaseAll();
  }

  /** The addresses of the spans, for so many keys. */
  layout(keyCount: number): { readonly keys: number; readonly gradients: number; readonly indexes: number; readonly scratch: number } {
    assert(keyCount <= this.#capacity, "RowContribution.R1");
    const keys = this.#address;
    const gradients = keys + keyCount * KEY_BYTES;
    const indexes = gradients + keyCount * this.#width * FLOAT_BYTES;
    return { keys, gradients, indexes, scratch: indexes + keyCount * INDEX_BYTES };
  }

  /** Releases the memory of the store's own list, which the store allocates next. */
  releaseList(): void {
    if (this.#list !== 0) this.#arena.release(this.#list, this.#capacity * INDEX_BYTES);
    this.#list = 0;
  }

  #workBytes(keyCount: number): number {
    return keyCount * (KEY_BYTES + this.#width * FLOAT_BYTES + INDEX_BYTES) + duplicateScratchBytes(keyCount);
  }

  /** Twice the capacity, or just what is needed if that does not fit. What fitted before fits again. */
  #resize(needed: number): void {
    const before = this.#capacity;
    this.#releaseSpans();
    if (this.#tryTake(Math.max(needed, 2 * before)) || this.#tryTake(needed)) return;
    const error = arenaFull(this.#arena, `${this.#workBytes(needed)} bytes in which the updates of a clock are added up`);
    if (before === 0) this.#emptied();
    else assert(this.#tryTake(before), "what was released a moment ago is free");
    throw error;
  }

  #tryTake(capacity: number): boolean {
    const address = this.#arena.tryAllocateBulk(this.#workBytes(capacity));
    if (address === 0) return false;
    const list = this.#arena.tryAllocateBulk(capacity * INDEX_BYTES);
    if (list === 0) {
      this.#arena.release(address, this.#workBytes(capacity));
      return false;
    }
    this.#address = address;
    this.#list = list;
    this.#capacity = capacity;
    return true;
  }

  #releaseSpans(): void {
    this.releaseList();
    if (this.#address !== 0) this.#arena.release(this.#address, this.#workBytes(this.#capacity));
    this.#address = 0;
    this.#capacity = 0;
  }

  #releaseAll(): void {
    this.#releaseSpans();
    this.#emptied();
  }
}

/** What one worker pushed at one clock. */
export class RowContribution implements ServerUpdate {
  readonly #target: RoundTarget;
  readonly #host: ParameterHost;
  readonly #memories: RoundMemories;
  readonly #clock: number;
  readonly #chunks: Chunk[] = [];
  /** An upper bound of the elements; for a repeated key, the sum of both. */
  #magnitude = 0;
  #pushNumber: number | undefined;
  /** Whether it has rows of several pushes, which may name the same keys (RowContribution.R4). */
  #isRepeated = false;
  /** How many keys were left when they were joined last. */
  #joinedCount = 0;
  /** That of its round, from the first chunk on (RowContribution.R3). */
  #memory: RoundMemory | undefined;

  /** Without rows at first. */
  constructor(target: RoundTarget, host: ParameterHost, { memories, clock }: { readonly memories: RoundMemories; readonly clock: number }) {
    this.#target = target;
    this.#host = host;
    this.#memories = memories;
    this.#clock = clock;
  }

  /** Keeps a copy of these rows, times `scale`, with magnitudes up to this. Throws ARENA_FULL (RowContribution.R2). */
  add(keys: BigUint64Array, gradients: Float32Array, { scale, magnitude, pushNumber }: PushedRows): void {
    const { arena, kernels } = this.#host;
    const keyCount = keys.length;
    const byteCount = this.#chunkBytes(keyCount);
    const memory = this.#memory ?? this.#memories.at(this.#clock);
    memory.grow(keyCount); // RowContribution.R1
    const address = arena.tryAllocateBulk(byteCount);
    if (address === 0) {
      const error = arenaFull(arena, `${byteCount} bytes of updates that wait for those of other workers`);
      memory.shrink(keyCount);
      throw error;
    }
    this.#memory = memory;
    const chunk = { keys: address, gradients: address + keyCount * KEY_BYTES, keyCount, keyCountMax: keyCount };
    kernels.copy(chunk.keys, keys.byteOffset, keys.byteLength);
    if (scale === 1) kernels.copy(chunk.gradients, gradients.byteOffset, gradients.byteLength);
    else {
      kernels.zero(chunk.gradients, gradients.byteLength);
      kernels.axpy(chunk.gradients, gradients.byteOffset, scale, gradients.length);
    }
    const isOther = this.#chunks.length > 0 && pushNumber !== this.#pushNumber;
    if (isOther || pushNumber === undefined) this.#isRepeated = true; // another server's rows may be of several pushes
    this.#pushNumber = pushNumber;
    this.#chunks.push(chunk);
    this.#magnitude += magnitude * Math.abs(scale);
  }

  /** Joins repeated pushes, if that is worth it (RowContribution.R4). Returns the number of bytes saved. */
  joinRepeated(): number {
    if (!this.#isRepeated || this.keyCount < 2 * this.#joinedCount + JOINED_KEYS_MIN) return 0;
    return this.#chunkBytes(this.#join());
  }

  /** Makes one row of those of one key, in their memory. Returns the number of rows saved. */
  #join(): number {
    const { arena, kernels } = this.#host;
    const { keyCount } = this;
    const memory = this.#memory;
    if (memory === undefined || keyCount === 0) return 0;
    const { keys, gradients, uniqueCount } = this.#reduce(memory, [this]);
    this.#joinedCount = uniqueCount;
    if (uniqueCount === keyCount) return 0;
    const rowBytes = this.#target.words * FLOAT_BYTES;
    let at = 0;
    for (const chunk of this.#chunks.splice(0)) {
      chunk.keyCount = Math.min(chunk.keyCountMax, uniqueCount - at);
      kernels.copy(chunk.keys, keys + at * KEY_BYTES, chunk.keyCount * KEY_BYTES);
      kernels.copy(chunk.gradients, gradients + at * rowBytes, chunk.keyCount * rowBytes);
      at += chunk.keyCount;
      if (chunk.keyCount > 0) this.#chunks.push(chunk);
      else arena.release(chunk.keys, this.#chunkBytes(chunk.keyCountMax));
    }
    memory.shrink(keyCount - uniqueCount);
    return keyCount - uniqueCount;
  }

  /**
   * Collects all rows in the order of the contributions, makes one of those of one key, in that order, and applies
   * them.
   */
  applyRound({ contributions }: CompleteRound<ServerUpdate>): void {
    const handles = contributions.map(({ handle }) => handle).filter((handle) => handle instanceof RowContribution);
    this.#target.inRound(() => this.#applyAll(handles, contributions.length));
    for (const one of handles) one.free();
  }

  #applyAll(handles: readonly RowContribution[], contributionCount: number): void {
    if (handles.length > 1) for (const one of handles) if (one.#isRepeated) one.#join(); // RowContribution.R4
    const gradientScale =
      this.#target.phases.at(this.#clock).reduce === "mean" ? 1 / Math.max(contributionCount, this.#target.pusherCount(this.#clock)) : 1;
    const memory = handles.map((one) => one.#memory).find((known) => known !== undefined);
    if (memory === undefined) return; // all its parts were dropped
    const { keys, gradients, uniqueCount } = this.#reduce(memory, handles);
    memory.releaseList();
    const magnitude = handles.reduce((sum, one) => sum + one.#magnitude, 0);
    this.#target.applyRound(keys, uniqueCount, { gradients, gradientScale, clock: this.#clock, magnitude });
  }

  /** Collects rows in the round's memory, in this order, and makes one of those of one key. */
  #reduce(
    memory: RoundMemory,
    handles: readonly RowContribution[],
  ): { readonly keys: number; readonly gradients: number; readonly uniqueCount: number } {
    const { kernels, duplicates, secret } = this.#host;
    const { join, words: width } = this.#target;
    const keyCount = handles.reduce((count, { keyCount: more }) => count + more, 0);
    const { keys, gradients, indexes, scratch } = memory.layout(keyCount);
    let at = 0;
    for (const { keys: from, gradients: rows, keyCount: count } of handles.flatMap((one) => one.#chunks)) {
      kernels.copy(keys + at * KEY_BYTES, from, count * KEY_BYTES);
      kernels.copy(gradients + at * width * FLOAT_BYTES, rows, count * width * FLOAT_BYTES);
      at += count;
    }
    const uniqueCount = duplicates.findDuplicates(keys, keyCount, Number(secret & 0xffff_ffffn), scratch, keys, indexes);
    if (uniqueCount < keyCount) {
      const rows = { rows: gradients, keyCount, width, indexes, rowsTo: 0, known: 0, out: gradients };
      joinDuplicates(duplicates, join, rows);
    }
    return { keys, gradients, uniqueCount };
  }

  /** A copy of its rows of a part; undefined if it has none. */
  savePart(part: number): RowContributionImage | undefined {
    const { words: width } = this.#target;
    const { words, floats } = this.#host.arena;
    const rows = this.#chunks.flatMap((chunk) => this.#rowsOf(chunk, part).map((row) => ({ chunk, row })));
    if (rows.length === 0) return undefined;
    const keys = new BigUint64Array(rows.length);
    const halves = new Uint32Array(keys.buffer);
    const gradients = new Float32Array(rows.length * width);
    for (const [i, { chunk, row }] of rows.entries()) {
      const key = (chunk.keys >>> 2) + 2 * row;
      const from = (chunk.gradients >>> 2) + row * width;
      halves.set(words.subarray(key, key + 2), 2 * i);
      gradients.set(floats.subarray(from, from + width), i * width);
    }
    return { keys, gradients, magnitude: this.#magnitude };
  }

  /** Marks the parts of its rows. */
  markParts(marks: PartMarks): void {
    for (const { keys, keyCount } of this.#chunks) markParts(marks, this.#host.arena.words, keys, keyCount);
  }

  /** Drops its rows of a part; returns the number of bytes. */
  dropPart(part: number): number {
    const { words: width } = this.#target;
    const { words, floats } = this.#host.arena;
    let droppedCount = 0;
    for (const chunk of this.#chunks) {
      const dropped = new Set(this.#rowsOf(chunk, part));
      if (dropped.size === 0) continue;
      let kept = 0;
      for (let row = 0; row < chunk.keyCount; row++) {
        if (dropped.has(row)) continue;
        const [key, from] = [(chunk.keys >>> 2) + 2 * row, (chunk.gradients >>> 2) + row * width];
        words.copyWithin((chunk.keys >>> 2) + 2 * kept, key, key + 2);
        floats.copyWithin((chunk.gradients >>> 2) + kept * width, from, from + width);
        kept++;
      }
      chunk.keyCount = kept;
      droppedCount += dropped.size;
    }
    if (droppedCount > 0) this.#memory?.shrink(droppedCount);
    if (this.keyCount === 0) this.#memory = undefined;
    return this.#chunkBytes(droppedCount);
  }

  /** The indexes of the rows of a part in a chunk. */
  #rowsOf({ keys, keyCount }: Chunk, part: number): number[] {
    const { words } = this.#host.arena;
    const rows: number[] = [];
    for (let row = 0; row < keyCount; row++) {
      const at = (keys >>> 2) + 2 * row;
      if (partOf(words[at] as number, words[at + 1] as number) === part) rows.push(row);
    }
    return rows;
  }

  get keyCount(): number {
    return this.#chunks.reduce((count, chunk) => count + chunk.keyCount, 0);
  }

  /** RowContribution.R3 */
  free(): void {
    for (const { keys, keyCount, keyCountMax } of this.#chunks.splice(0)) {
      this.#host.arena.release(keys, this.#chunkBytes(keyCountMax));
      if (keyCount > 0) this.#memory?.shrink(keyCount);
    }
  }

  #chunkBytes(keyCount: number): number {
    return keyCount * (KEY_BYTES + this.#target.words * FLOAT_BYTES);
  }
}
