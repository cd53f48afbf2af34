// exchange-entries — the entries of parts that come to and go from a server with a log (PartsExchange.E4): how a head
// writes them, and how the process that repeats its log follows. Not what happens then: copy/parts-exchange.ts.

import { count, decodeJson, object } from "../../wire/json-body.ts";
import { type PlacementView, placementShape } from "../../wire/roster.ts";
import type { DepartedParts } from "../copy/parts-departure.ts";
import type { ExchangeLog } from "../copy/parts-exchange.ts";
import { EntryKind, type ReadEntry, textOf } from "./log-entry.ts";
import { unpack } from "./packed-body.ts";
import type { ReplicaLog } from "./replica-log.ts";

/** As PartsExchange. */
export type ExchangeRepeater = {
  repeatPlacement(next: PlacementView, rank: number): void;
  repeatArrived(parts: DepartedParts): void;
  repeatHandedOver(epoch: number): void;
};

const handedOverShape = object({ epoch: count });

/** Writes nothing while the log is off. */
export function exchangeLogOf(log: ReplicaLog): ExchangeLog {
  return {
    placement: (next) => {
      if (log.isOn) log.appendText(EntryKind.PLACEMENT, next);
    },
    arrived: (parts) => {
      if (log.isOn) log.appendPacked(EntryKind.ARRIVED, parts);
    },
    handedOver: (epoch) => {
      if (log.isOn) log.appendText(EntryKind.HANDED_OVER, { epoch });
    },
    whenCommitted: () => log.whenCommitted(),
  };
}

/** False for an entry of another kind. Throws BAD_REQUEST, ARENA_FULL. */
export function repeatExchange(
  entry: Readonly<ReadEntry>,
  entries: Uint8Array,
  exchange: ExchangeRepeater | undefined,
  rank: number,
): boolean {
  if (entry.kind === EntryKind.PLACEMENT)
    exchange?.repeatPlacement(decodeJson(placementShape, "a placement", textOf(entry, entries)), rank);
  else if (entry.kind === EntryKind.ARRIVED) exchange?.repeatArrived(unpack(entries, entry) as DepartedParts);
  else if (entry.kind === EntryKind.HANDED_OVER)
    exchange?.repeatHandedOver(decodeJson(handedOverShape, "a hand-over", textOf(entry, entries)).epoch);
  else return false;
  return true;
}
