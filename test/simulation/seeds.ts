// seeds — runs a simulation for many seeds, and names the one that fails.

import { reasonOf } from "../../src/base/errors.ts";

export async function forSeeds({ from, count }: { from: number; count: number }, run: (seed: number) => Promise<void>): Promise<void> {
  for (let seed = from; seed < from + count; seed++) {
    await run(seed).catch((cause: unknown) => {
      throw new Error(`seed ${seed}: ${reasonOf(cause)}`, { cause });
    });
  }
}
