// told-catalogue — what a node of a control-plane test knows of the catalogue, as its test says it.

import type { CatalogueSource } from "../cluster/node-memory.ts";
import type { CatalogueEntry } from "../wire/catalogue.ts";

export class ToldCatalogue implements CatalogueSource {
  highest = 0;
  readonly #entries = new Map<string, CatalogueEntry>();

  entries(): Iterable<CatalogueEntry> {
    return this.#entries.values();
  }

  add(entry: CatalogueEntry): void {
    this.#entries.set(entry.name, entry);
    this.highest = Math.max(this.highest, entry.number);
  }
}

/** The spec of a small tensor, in JSON. */
export function specText(name: string, shape: readonly number[] = [4]): string {
  const initializer = { type: "constant", value: 0 };
  return JSON.stringify({ kind: "tensor", name, shape, initializer, optimizer: { type: "sum" }, updates: "async", reduce: "sum" });
}
