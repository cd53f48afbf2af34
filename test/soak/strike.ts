// strike — what one strike did, and to which processes: its failure says both, and what each process wrote.

import { reasonOf } from "../../src/base/errors.ts";
import type { Running } from "../e2e/processes.ts";

export class Strike {
  readonly #done: string[];
  readonly #nodes: Running[] = [];

  private constructor(seed: string) {
    this.#done = [seed];
  }

  /** `name` has the seed in it. */
  static async run(name: string, body: (strike: Strike) => Promise<void>): Promise<void> {
    const strike = new Strike(name);
    try {
      await body(strike);
    } catch (cause) {
      throw new Error(`${strike.#done.join(", ")}: ${reasonOf(cause)}\n${strike.#transcripts}`, { cause });
    }
  }

  did(what: string): void {
    this.#done.push(what);
  }

  /** Shows what these wrote if the strike fails. */
  watch<T extends readonly Running[]>(...nodes: T): T {
    this.#nodes.push(...nodes);
    return nodes;
  }

  get #transcripts(): string {
    return this.#nodes.map(({ transcript }) => transcript).join("\n");
  }
}
