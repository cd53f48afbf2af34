// test-catalogues — catalogues without a scheduler, for unit tests: one has the entries that a test adds, the other
// numbers parameters 1, 2, 3 … as they are named, and accepts every spec.

import type { CatalogueSource } from "../cluster/catalogue-calls.ts";
import type { CatalogueEntry, ParameterNumber } from "../wire/catalogue.ts";

export class FixedCatalogue implements CatalogueSource {
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

export class LocalCatalogue {
  readonly #numbered = new Map<string, ParameterNumber>();

  numberOf(name: string): ParameterNumber {
    const numbered = this.#numbered.get(name) ?? { number: this.#numbered.size + 1, edition: 1 };
    this.#numbered.set(name, numbered);
    return numbered;
  }

  /** Ends the edition that there is; returns it. */
  clear(number: number): number {
    for (const [name, numbered] of this.#numbered) {
      if (numbered.number !== number) continue;
      this.#numbered.set(name, { number, edition: numbered.edition + 1 });
      return numbered.edition;
    }
    return 0;
  }

  async reserve(names: readonly string[]): Promise<readonly ParameterNumber[]> {
    return names.map((name) => this.numberOf(name));
  }

  async open(specs: readonly string[]): Promise<readonly ParameterNumber[]> {
    return specs.map((spec) => this.numberOf((JSON.parse(spec) as { readonly name: string }).name));
  }
}
