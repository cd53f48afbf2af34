// table-mismatch — what the scheduler says of a parameter that two processes describe differently, in the words of a
// table's configuration.

import { isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";

/** Modes as the engine shows them (store/consistency.ts): "ssp:2", "asp", "bsp", "bsp, staleness 2". */
const MODES = /\bconsistency is (.+?) and ((?:bsp, staleness \w+|[^;,\s]+))/;

/** What was thrown; a SPEC_MISMATCH with the names of the fields that differ. */
export function mismatchInWordsOfTables(thrown: unknown, id: number): unknown {
  if (!isWeighbridgeError(thrown, "SPEC_MISMATCH")) return thrown;
  const message = thrown.message
    .replaceAll(/\bdim is\b/g, "rowCapacity is")
    .replace(MODES, (_, there: string, here: string) => differencesOf(modeOf(there), modeOf(here)).join("; "));
  const text = `table ${id}: two processes create it with different configurations: ${message}`;
  return new WeighbridgeError("SPEC_MISMATCH", text, { cause: thrown });
}

type Mode = { readonly staleness: string; readonly isExact: boolean };

function modeOf(text: string): Mode {
  return { staleness: text === "asp" ? "Infinity" : (/\d+$/.exec(text)?.[0] ?? "0"), isExact: text.startsWith("bsp") };
}

/** A table without a bound is the same with and without snapshots. */
function differencesOf(there: Mode, here: Mode): string[] {
  const staleness = there.staleness === here.staleness ? [] : [`staleness is ${there.staleness} and ${here.staleness}`];
  const isBounded = there.staleness !== "Infinity" && here.staleness !== "Infinity";
  const given = ({ isExact }: Mode): string => (isExact ? "given" : "left out");
  const snapshots = isBounded && there.isExact !== here.isExact ? [`snapshotClock of the group is ${given(there)} and ${given(here)}`] : [];
  return [...staleness, ...snapshots];
}
