// given-gradients — the gradients of a batch, cut by the owner of each row, with what an owner has to know to apply them as the servers would: the giver's clock and
// scale, and on which servers its batch lies.

import { type Placement, partOf } from "../keys/placement.ts";
import type { AskedRows } from "./asked-rows.ts";
import { addServer, type Gradients, gradientsMessage, hasServer, serverWordCount } from "./row-messages.ts";

export type GivenGradients = {
  /** The rows of the batch that have one. */
  readonly rows: Int32Array;
  /** `width` floats for each of them. */
  readonly gradients: Float32Array;
  readonly width: number;
  readonly clock: number;
  readonly scale: number;
  /** Which server has which row. */
  readonly placement: Placement;
  /** Whether every server has to know of every push (`countsPushes` of the table's spec). */
  readonly tellsAll: boolean;
};

/** A message for each member, by position. */
export function encodeGiven(asked: AskedRows, given: GivenGradients): Uint8Array[] {
  const { rows, gradients, width, clock, scale } = given;
  const servers = serversOf(asked, given);
  return asked.parts.map(({ from, to }) => {
    let rowCount = 0;
    for (let i = 0; i < rows.length; i++) if ((rows[i] as number) >= from && (rows[i] as number) < to) rowCount++;
    const { bytes, places, values } = gradientsMessage({ clock, scale, servers, rowCount, width });
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
export function ownGiven(asked: AskedRows, given: GivenGradients): Gradients {
  const { rows, gradients, clock, scale } = given;
  return { clock, scale, servers: serversOf(asked, given), places: Uint32Array.from(rows), values: gradients };
}

/** The servers whose rows these are, or that are told of them: each counts a step, and the giver among those that it averages over. */
function serversOf(asked: AskedRows, { rows, placement, tellsAll }: GivenGradients): Uint32Array {
  const serverCount = placement.servers.length;
  const servers = new Uint32Array(serverWordCount(serverCount));
  if (tellsAll && rows.length > 0) for (let server = 0; server < serverCount; server++) addServer(servers, server);
  if (tellsAll) return servers;
  const halves = asked.keysOf({ from: 0, to: asked.rowCount });
  let found = 0;
  for (let i = 0; i < rows.length && found < serverCount; i++) {
    const row = rows[i] as number;
    const server = placement.ownerOf(partOf(halves[2 * row] as number, halves[2 * row + 1] as number));
    if (hasServer(servers, server)) continue;
    addServer(servers, server);
    found++;
  }
  return servers;
}
