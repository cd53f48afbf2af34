// slot-layout — the memory that an optimizer needs beside the values, for a table's rows and for a tensor's blocks.
//
//   table row    width values | slots, one after the other | words u32
//   block        slots in a span of their own: slot k of all rows, then slot k + 1 of all rows
//
// The kernels of an optimizer (kernels/optimizers) use its slots in the order of the table below.

import type { ResolvedOptimizer } from "./optimizer-spec.ts";

/** What a slot holds before the first update: the same number everywhere, or a copy of the initial values. */
type SlotStart = number | "values";

export type Slot = {
  /** The name of its column in checkpoints. */
  readonly name: string;
  readonly start: SlotStart;
};

export type SlotLayout = {
  readonly slots: readonly Slot[];
  /** Floats of one slot for one row: the width, or 1 for row-wise AdaGrad. */
  readonly slotFloats: number;
  /** u32 after the slots of a table row, 0 at first. */
  readonly wordsPerRow: number;
};

export type SlotOwner = {
  readonly kind: "table" | "tensor";
  readonly width: number;
};

/** DC-ASGD: what a worker without a pull counts as having seen; stores keep what each worker has pulled. */
export const PULLED_SLOT = "pulled";

const zero = (name: string): Slot => ({ name, start: 0 });
const none = (): readonly Slot[] => [];
const velocity = (): readonly Slot[] => [zero("velocity")];
const squares = ({ initialAccumulator = 0 }: ResolvedOptimizer): readonly Slot[] => [{ name: "squares", start: initialAccumulator }];
const moments = (): readonly Slot[] => [zero("moment1"), zero("moment2")];

const SLOTS: Readonly<Record<ResolvedOptimizer["type"], (spec: ResolvedOptimizer) => readonly Slot[]>> = {
  sum: none,
  assign: none,
  min: none,
  max: none,
  sgd: none,
  momentum: velocity,
  nesterov: velocity,
  adagrad: squares,
  rowWiseAdagrad: squares,
  adam: moments,
  lazyAdam: moments,
  adamW: moments,
  rmsprop: ({ momentum = 0 }) => (momentum > 0 ? [zero("meanSquare"), zero("velocity")] : [zero("meanSquare")]),
  ftrl: ({ initialAccumulator = 0 }) => [zero("z"), { name: "n", start: initialAccumulator }],
  dcAsgd: () => [zero("meanSquare"), { name: PULLED_SLOT, start: "values" }],
  custom: none, // its updater has columns instead (ps-updater.ts)
};

export function slotLayoutOf(spec: ResolvedOptimizer, owner: SlotOwner): SlotLayout {
  const { type } = spec;
  const { kind, width } = owner;
  const countsSteps = kind === "table" && (type === "adam" || type === "adamW");
  return { slots: SLOTS[type](spec), slotFloats: type === "rowWiseAdagrad" ? 1 : width, wordsPerRow: countsSteps ? 1 : 0 };
}

/** Floats of all slots of one row. */
export function rowSlotFloats(layout: SlotLayout): number {
  return layout.slots.length * layout.slotFloats;
}
