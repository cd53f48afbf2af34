// outgoing-gradients — the gradients of a batch, cut by the owner of each row, with what an owner has to know to apply them as the servers would: the giver's clock and
// scale, and whether its batch pushes anything at all: that counts as a push to the table, whoever owns the rows.

import type { BatchRows } from "./batch-rows.ts";
import { type Gradients, gradientsMessage } from "./row-messages.ts";

export type OutgoingGradients = {
  /** The rows of the batch that have one. */
  readonly rows: Int32Array;
  /** `width` floats for each of them. */
  readonly gradients: Float32Array;
  readonly width: number;
  readonly clock: number;
  readonly scale: number;
};

/** A message for each member, by position. */
export function encodeGiven(asked: BatchRows, given: OutgoingGradients): Uint8Array[] {
  const { rows, gradients, width, clock, scale } = given;
  const isPush = rows.length > 0;
  return asked.parts.map(({ from, to }) => {
    let rowCount = 0;
    for (let i = 0; i < rows.length; i++) if ((rows[i] as number) >= from && (rows[i] as number) < to) rowCount++;
    const { bytes, places, values } = gradientsMessage({ clock, scale, isPush, rowCount, width });
    let at = 0;
    for (let i = 0; i < rows.length; i++) {
      const row = rows[i] as number;
      if (row < from || row >= to) continue;
      places[at] = row - from;
      for (let j = 0; j < width; j++) values[at * width + j] = gradients[i * width + j] as number;
      at++;
    }
    return bytes;
  });
}

/** What an owner reads from such a message, where this worker owns all rows. */
export function ownGiven({ rows, gradients, clock, scale }: OutgoingGradients): Gradients {
  return { clock, scale, isPush: rows.length > 0, places: Uint32Array.from(rows), values: gradients };
}
