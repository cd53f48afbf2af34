// described-plug-in — whether something that a module exports, or a user hands over, is an updater or a row type: what
// psUpdater and psRowType made.

import type { PsRowType } from "./row-types/ps-row-type.ts";
import type { PsUpdater } from "./updaters/ps-updater.ts";

export function isPsUpdater(value: unknown): value is PsUpdater {
  return isKind(value, "updater") && "update" in value;
}

export function isPsRowType(value: unknown): value is PsRowType {
  return isKind(value, "rowType") && "add" in value;
}

function isKind(value: unknown, kind: string): value is object {
  return typeof value === "object" && value !== null && (value as { readonly kind?: unknown }).kind === kind;
}
