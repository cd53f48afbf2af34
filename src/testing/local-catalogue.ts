// local-catalogue — numbers parameters for a server without a scheduler, in unit tests: 1, 2, 3 … as they are named.
// It believes every spec.

import type { ParameterNumber } from "../wire/catalogue.ts";

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
