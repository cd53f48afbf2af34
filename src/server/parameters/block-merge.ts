// block-merge — puts two pushes to one block together where they are values (assign, min, max) and do not add up, and
// the marks of the rows that they name. The optimizer's kernel does to a row what the optimizer itself does.

import { assert } from "../../base/assert.ts";
import type { MergeNumber } from "../../kernel/duplicate-kernels.ts";
import { FLOAT_BYTES } from "../../kernel/elements.ts";
import { type RowMarks, runsOf } from "../../store/block-span.ts";
import type { ParameterHost } from "./parameter-host.ts";

/** A block's gradient or values in the arena, and which of its rows a push names; undefined: all. */
export type PushedBlock = { readonly address: number; readonly magnitude: number; readonly named: RowMarks | undefined };

type MergeTarget = Omit<PushedBlock, "magnitude"> & { readonly rowCount: number; readonly width: number };

/** Merges rows that both name, and copies those that only the push names. */
export function mergeBlock({ kernels, optimizers }: ParameterHost, merge: MergeNumber, target: MergeTarget, pushed: PushedBlock): void {
  const { rowCount, width, named: own } = target;
  const put = (from: number, to: number, isKnown: boolean): void => {
    const offset = from * width * FLOAT_BYTES;
    const [row, source] = [target.address + offset, pushed.address + offset];
    if (isKnown) optimizers.updateBlock(merge, row, row, 0, 0, source, to - from, width, 0);
    else kernels.copy(row, source, (to - from) * width * FLOAT_BYTES);
  };
  const runs = pushed.named === undefined ? [{ from: 0, to: rowCount }] : runsOf(pushed.named, 1);
  for (const { from, to } of runs) {
    if (own === undefined) put(from, to, true);
    else for (let row = from; row < to; row++) put(row, row + 1, own[row] === 1);
  }
}

/** The rows that either names, written over `own`; undefined once all are named. */
export function joinedMarks(own: RowMarks | undefined, other: RowMarks | undefined): RowMarks | undefined {
  if (own === undefined || other === undefined) return undefined;
  assert(own.length === other.length, "marks are of one block");
  for (const { from, to } of runsOf(other, 1)) own.fill(1, from, to);
  return own;
}
