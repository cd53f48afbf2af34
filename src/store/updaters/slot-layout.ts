// slot-layout — the memory that an optimizer needs beside the values, for a table's rows and for a tensor's blocks.
//
//   table row    width values | slots, one after the other | words u32
//   block        slots in a span of their own: slot k of all rows, then slot k + 1 of all rows

import type { ResolvedOptimizer } from "./optimizer-spec.ts";

/** What a slot holds before the first update: the same number everywhere, or a copy of the initial values. */
type SlotStart = number | "values";

export type SlotLayout = {
  /** The slots' first contents, one for each slot. */
  readonly starts: readonly SlotStart[];
  /** Floats of one slot for one row: the width, or 1 for row-wise AdaGrad. */
  readonly slotFloats: number;
  /** u32 after the slots of a table row, 0 at first. */
  readonly wordsPerRow: number;
};

export type SlotOwner = {
  readonly kind: "table" | "tensor";
  readonly width: number;
};

export function slotLayoutOf(spec: ResolvedOptimizer, owner: SlotOwner): SlotLayout {
  const { type } = spec;
  const { kind, width } = owner;
  const starts = startsOf(spec);
  const countsSteps = kind === "table" && (type === "adam" || type === "adamW");
  return { starts, slotFloats: type === "rowWiseAdagrad" ? 1 : width, wordsPerRow: countsSteps ? 1 : 0 };
}

/** Floats of all slots of one row. */
export function rowSlotFloats(layout: SlotLayout): number {
  return layout.starts.length * layout.slotFloats;
}

function startsOf(spec: ResolvedOptimizer): readonly SlotStart[] {
  switch (spec.type) {
    case "momentum":
    case "nesterov":
      return [0];
    case "adagrad":
    case "rowWiseAdagrad":
      return [spec.initialAccumulator ?? 0];
    case "adam":
    case "lazyAdam":
    case "adamW":
      return [0, 0];
    case "rmsprop":
      return (spec.momentum ?? 0) > 0 ? [0, 0] : [0];
    case "ftrl":
      return [0, spec.initialAccumulator ?? 0];
    case "dcAsgd":
      return [0, "values"]; // what a worker without a pull counts as having seen; stores keep what each pulled
    default:
      return [];
  }
}
