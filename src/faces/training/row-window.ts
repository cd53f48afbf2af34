// row-window — the span of slots that the layer reads: first those of the device's rows, which stay there as long as
// they are cached, then as many as a batch may have ids, for rows that are there for one step: those of other owners,
// and those that found no slot on the device.
//
// Invariants:
//   RowWindow.W1. `slotsOf` assigns each row of a batch a slot of its own; the slot of a device row is the device's.

import { badArgument, badRequest } from "../../base/errors.ts";
import { FLOAT_BYTES, WORD_BYTES } from "../../kernel/elements.ts";
import { ArenaSpans } from "../../worker/arena-spans.ts";
import type { BatchRows, ServedRows } from "./row-request.ts";
import { NO_SLOT } from "./row-source.ts";
import type { RowTiers, TierKernels } from "./row-tiers.ts";

export type RowWindowOptions = { readonly deviceRows: number; readonly idCountMax: number; readonly width: number; readonly name: string };

export class RowWindow {
  readonly address: number;
  readonly slotCount: number;
  readonly #tools: TierKernels;
  readonly #options: RowWindowOptions;
  /** Of the batch that was assigned last. */
  readonly #rowOfSlot: Int32Array;

  /** Throws ARENA_FULL. */
  constructor(tools: TierKernels, options: RowWindowOptions) {
    this.#tools = tools;
    this.#options = options;
    this.slotCount = options.deviceRows + options.idCountMax;
    this.address = tools.arena.allocate(this.#byteCount);
    this.#rowOfSlot = new Int32Array(this.slotCount);
  }

  /**
   * Assigns slots to the rows of a batch (RowWindow.W1). `position` is this worker's; the rows of other owners are in
   * `incoming`. Throws BAD_REQUEST, ARENA_FULL.
   */
  assign(
    requested: BatchRows,
    own: { readonly served: ServedRows; readonly position: number; readonly tiers: RowTiers },
    incoming: readonly Float32Array[],
  ): void {
    const { width, name, deviceRows } = this.#options;
    let guest = deviceRows;
    for (const [position, { from, to }] of requested.parts.entries()) {
      if (position === own.position) {
        guest = this.#assignOwn(requested, own, guest);
        continue;
      }
      const rows = incoming[position] as Float32Array;
      if (rows.length !== (to - from) * width)
        throw badRequest(`${rows.length} floats came for ${to - from} rows of ${name} from their owner`);
      this.#tools.arena.floats.set(rows, (this.address >>> 2) + guest * width);
      for (let row = from; row < to; row++) requested.rowSlots[row] = guest++;
    }
    for (let row = 0; row < requested.rowCount; row++) this.#rowOfSlot[requested.rowSlots[row] as number] = row;
  }

  /** The row of each slot. Throws BAD_ARGUMENT unless the slots are of the batch that was assigned last, and ascend. */
  rowsOf(requested: BatchRows, slots: Int32Array): Int32Array {
    return slots.map((slot, i) => {
      const row = this.#rowOfSlot[slot] ?? -1;
      if (requested.rowSlots[row] === slot && (i === 0 || slot > (slots[i - 1] as number))) return row;
      throw badArgument(`${this.#options.name}: slot ${slot} at ${i} is not of the acquired batch, or does not ascend`);
    });
  }

  close(): void {
    this.#tools.arena.release(this.address, this.#byteCount);
  }

  get #byteCount(): number {
    return this.slotCount * this.#options.width * FLOAT_BYTES;
  }

  /** Returns the next slot for a guest. */
  #assignOwn(
    requested: BatchRows,
    { served, position, tiers }: { readonly served: ServedRows; readonly position: number; readonly tiers: RowTiers },
    firstGuest: number,
  ): number {
    const { arena, kernels } = this.#tools;
    const { address, keyCount } = served.keysOf(position);
    const valueBytes = this.#options.width * FLOAT_BYTES;
    const from = requested.parts[position]?.from ?? 0;
    let guest = firstGuest;
    if (keyCount === 0) return guest;
    const spans = new ArenaSpans(arena);
    const list = spans.take(keyCount * WORD_BYTES);
    tiers.locate(address, keyCount, list);
    for (let i = 0; i < keyCount; i++) {
      const row = arena.words[(list >>> 2) + i] as number;
      const slot = tiers.deviceSlotAt(row);
      if (slot === NO_SLOT) kernels.copy(this.address + guest * valueBytes, row, valueBytes);
      requested.rowSlots[from + i] = slot === NO_SLOT ? guest++ : slot;
    }
    spans.release();
    return guest;
  }
}
