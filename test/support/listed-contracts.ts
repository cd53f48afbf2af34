// listed-contracts — all contracts that src/contracts exports, those of families too.

import { globSync } from "node:fs";
import { join } from "node:path";
import type { Effect, Target } from "../../src/contracts/contract.ts";

export type ListedContract = {
  readonly name: string;
  readonly target: Target;
  readonly effect: Effect;
  readonly id?: number;
  readonly nameHash?: number;
};

const root = join(import.meta.dirname, "..", "..");

export async function listedContracts(): Promise<ListedContract[]> {
  const found = new Set<ListedContract>();
  for (const path of globSync("src/contracts/*.ts", { cwd: root }).filter((name) => !name.endsWith(".test.ts"))) {
    const exports: unknown[] = Object.values((await import(join(root, path))) as object);
    for (const value of exports) {
      if (isContract(value)) found.add(value);
      else if (typeof value === "object" && value !== null) for (const one of Object.values(value)) if (isContract(one)) found.add(one);
    }
  }
  return [...found];
}

function isContract(value: unknown): value is ListedContract {
  return typeof value === "object" && value !== null && "name" in value && "target" in value && "effect" in value;
}
