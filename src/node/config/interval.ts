// interval — what a text such as 60s or 500steps says (value-kind.ts, every): how often something is due.

import { milliseconds } from "./value-kind.ts";

export type Interval = { readonly everyMs: number } | { readonly everySteps: number };

/** What a text of `every` says. */
export function intervalOf(text: string): Interval {
  const steps = /^(\d+) ?steps?$/.exec(text)?.[1];
  if (steps !== undefined) return { everySteps: Number(steps) };
  return { everyMs: milliseconds(0).read(text)?.value ?? Number.NaN };
}
