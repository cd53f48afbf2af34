// updater-stage — for tests of tables with an updater of their own: what such a one has to say of large numbers and of pulls, which is nothing.

import type { RowUpdater } from "../store/row-updater.ts";

export const NEVER_TRIED: Omit<RowUpdater, "rowExtraBytes" | "startRows" | "updateRows"> = {
  isTried: false,
  layout: { starts: [], slotFloats: 0, wordsPerRow: 0 },
  attempt: () => true,
  notesPulls: false,
  comparedRank: undefined,
  updatePulledRows: () => undefined,
  noteMagnitude: () => undefined,
};
