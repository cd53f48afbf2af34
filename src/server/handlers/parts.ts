// parts — serves the parts that have left this server to their new owners (contracts/parts.ts).

import { WeighbridgeError } from "../../base/errors.ts";
import { partsFetch } from "../../contracts/parts.ts";
import { nameOf, rankOf, roleOf } from "../../wire/node-id.ts";
import { pack, writePacked } from "../replication/packed-body.ts";
import { type ServedFunction, serve } from "../served-function.ts";

export const PART_HANDLERS: readonly ServedFunction[] = [
  serve(partsFetch, {
    handler: ({ departure, holder, ownership }, { epoch, from, asMember }) => {
      if (ownership.epoch < epoch) throw unheard(ownership.rank, epoch);
      const parts = departure.read(ownerOf(holder.worker), { epoch, from, asMember });
      const packed = pack(parts);
      const body = new Uint8Array(packed.byteCount);
      writePacked(packed, body, 0);
      return { to: parts.to, textBytes: packed.text.length, body };
    },
  }),
];

/** The new owner asks again. */
function unheard(rank: number, epoch: number): WeighbridgeError {
  return new WeighbridgeError("QUEUE_FULL", `server ${rank} has not heard of the placement of epoch ${epoch}`, { retryable: true });
}

/** Throws BAD_REQUEST unless a server calls. */
function ownerOf(node: number): number {
  if (roleOf(node) === "server") return rankOf(node);
  throw new WeighbridgeError("BAD_REQUEST", `parts go from server to server, not to ${nameOf(node)}`);
}
