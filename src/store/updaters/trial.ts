// trial — an update that may overflow: it saves what it is about to change, so that the update can be undone once its
// outcome is known. It costs copies; the Updater uses it only if numbers are very large or may grow from push to push.
//
// Invariants:
//   Trial.T1. After `undo` everything that was saved is as it was, bit for bit.
//   Trial.T2. An element is to blame if its new value, or one of its slots, is not finite; a whole row for a shared
//       slot.

import type { Arena } from "../../kernel/arena.ts";
import { FLOAT_BYTES } from "../../kernel/elements.ts";
import type { OptimizerKernels } from "../../kernel/optimizer-kernels.ts";
import type { SlotLayout } from "./slot-layout.ts";

/** Rows that lie side by side, and are about to be updated. Indexes of floats, not addresses. */
type TriedRows = {
  /** Where the new values are written. */
  readonly values: number;
  readonly floatCount: number;
  /** Of the first slot, and from one slot to the next. */
  readonly slots: number;
  readonly slotStride: number;
  readonly slotCount: number;
  /** Floats of one slot of all these rows. */
  readonly slotFloats: number;
  readonly gradient: number;
  /** Words behind the slots, or elsewhere, that count updates. */
  readonly words: number;
  readonly wordCount: number;
};

type Saved = {
  readonly at: TriedRows;
  readonly values: Float32Array;
  readonly slots: readonly Float32Array[];
  readonly words: Uint32Array;
};

export class Trial {
  readonly #arena: Arena;
  readonly #kernels: Pick<OptimizerKernels, "greatestMagnitude">;
  readonly #saved: Saved[] = [];

  constructor(arena: Arena, kernels: Pick<OptimizerKernels, "greatestMagnitude">) {
    this.#arena = arena;
    this.#kernels = kernels;
  }

  /** Call it before these rows change. */
  save(at: TriedRows): void {
    const { floats, words } = this.#arena;
    this.#saved.push({
      at,
      values: new Float32Array(floats.subarray(at.values, at.values + at.floatCount)),
      slots: slotSpans(at).map((from) => new Float32Array(floats.subarray(from, from + at.slotFloats))),
      words: new Uint32Array(words.subarray(at.words, at.words + at.wordCount)),
    });
  }

  /** The greatest magnitude among all values and slots as they are now; Infinity when one is not finite. */
  magnitude(): number {
    let most = 0;
    const look = (from: number, floatCount: number): void => {
      const magnitude = this.#kernels.greatestMagnitude(from * FLOAT_BYTES, floatCount);
      most = Number.isFinite(magnitude) ? Math.max(most, magnitude) : Infinity;
    };
    for (const { at } of this.#saved) {
      look(at.values, at.floatCount);
      for (const from of slotSpans(at)) look(from, at.slotFloats);
    }
    return most;
  }

  /** The indexes of the gradients to blame (Trial.T2). Call it before `undo`; zero them after it. */
  blamed(): readonly number[] {
    const { floats } = this.#arena;
    const found = new Set<number>();
    for (const { at } of this.#saved) {
      const perFloat = at.slotFloats === 0 ? 1 : at.floatCount / at.slotFloats;
      for (let j = 0; j < at.floatCount; j++) if (!Number.isFinite(floats[at.values + j]!)) found.add(at.gradient + j);
      for (const from of slotSpans(at)) {
        for (let j = 0; j < at.slotFloats; j++) {
          if (Number.isFinite(floats[from + j]!)) continue;
          for (let k = 0; k < perFloat; k++) found.add(at.gradient + j * perFloat + k);
        }
      }
    }
    return [...found];
  }

  /** Trial.T1 */
  undo(): void {
    const { floats, words } = this.#arena;
    for (const { at, values, slots, words: counts } of this.#saved.toReversed()) {
      floats.set(values, at.values);
      for (const [slot, from] of slotSpans(at).entries()) floats.set(slots[slot]!, from);
      words.set(counts, at.words);
    }
  }
}

/** Where each slot begins. */
function slotSpans({ slots, slotStride, slotCount }: TriedRows): number[] {
  return Array.from({ length: slotCount }, (_, slot) => slots + slot * slotStride);
}

/** A table row as a trial saves it, `rowBytes` from its first value on. All are addresses. */
export function triedRow(
  { slots: { length: slotCount }, slotFloats }: SlotLayout,
  {
    row,
    width,
    rowBytes,
    gradient,
  }: { readonly row: number; readonly width: number; readonly rowBytes: number; readonly gradient: number },
): TriedRows {
  const [values, slots] = [row / FLOAT_BYTES, row / FLOAT_BYTES + width];
  const words = slots + slotCount * slotFloats;
  return {
    ...{ values, floatCount: width, slots, slotStride: slotFloats, slotCount, slotFloats },
    ...{ gradient: gradient / FLOAT_BYTES, words, wordCount: values + rowBytes / FLOAT_BYTES - words },
  };
}

/** Rows `from` to `to` of a block, with new values at `target`; `gradient` is that of row `from`. All are addresses. */
export function triedRun(
  { layout, width, rowSteps }: { readonly layout: SlotLayout; readonly width: number; readonly rowSteps: number },
  block: { readonly target: number; readonly slots: number; readonly rowCount: number },
  { from, to, gradient }: { readonly from: number; readonly to: number; readonly gradient: number },
): TriedRows {
  const { slots, slotFloats } = layout;
  return {
    values: block.target / FLOAT_BYTES + from * width,
    floatCount: (to - from) * width,
    slots: block.slots / FLOAT_BYTES + from * slotFloats,
    slotStride: block.rowCount * slotFloats,
    slotCount: slots.length,
    slotFloats: (to - from) * slotFloats,
    gradient: gradient / FLOAT_BYTES,
    words: rowSteps / FLOAT_BYTES + from,
    wordCount: rowSteps === 0 ? 0 : to - from,
  };
}
