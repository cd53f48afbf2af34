// options — what the command line asks for: which cases, in which regimes, how long.

import { parseArgs } from "node:util";
import { CASES, IDLE_CASE_NAMES, MEMORY_CASE_NAME } from "./cases.ts";
import type { Regime } from "./child.ts";
import type { Span } from "./meter.ts";

/** How much time a case gets. */
export type Effort = {
  readonly rounds: number;
  readonly span: Span;
  /** One try of one raw plan. */
  readonly searchSpan: Span;
  /** An unreported round of ours, in which the case's code gets compiled; the search does that for raw. */
  readonly settleSpan: Span;
  /**
   * The same for small requests, whose cost is code: the engine takes its time to compile what the socket calls so
   * often.
   */
  readonly settleSmallSpan: Span;
  /** On a machine too busy for all rounds a case ends after this time, but never without a round of each side. */
  readonly caseBudgetMs: number;
};

export type Options = {
  readonly effort: Effort;
  readonly caseNames: readonly string[];
  readonly regimes: readonly Regime[];
  readonly rawOnly: boolean;
  readonly jsonFile: string | undefined;
};

const FULL: Effort = {
  rounds: 7,
  span: { warmupMs: 150, measureMs: 700 },
  searchSpan: { warmupMs: 30, measureMs: 120 },
  settleSpan: { warmupMs: 0, measureMs: 1_000 },
  settleSmallSpan: { warmupMs: 0, measureMs: 1_500 },
  caseBudgetMs: 60_000,
};
const QUICK: Effort = {
  rounds: 3,
  span: { warmupMs: 30, measureMs: 130 },
  searchSpan: { warmupMs: 10, measureMs: 30 },
  settleSpan: { warmupMs: 0, measureMs: 250 },
  settleSmallSpan: { warmupMs: 0, measureMs: 900 },
  caseBudgetMs: 2_600,
};
const CASE_NAMES: readonly string[] = [...CASES.map(({ name }) => name), MEMORY_CASE_NAME, ...Object.values(IDLE_CASE_NAMES)];
const REGIMES: readonly Regime[] = ["free", "pinned"];

export const USAGE: string = `npm run bench -- [--json FILE] [--quick] [--case NAME...] [--regime free|pinned] [--raw-only]

  --json FILE    write the results there as a JSON array
  --quick        a first impression in three to four minutes
  --case NAME... only these cases
  --regime NAME  only this one; pinned puts every process on core 1
  --raw-only     only the raw ceilings

Cases: ${CASE_NAMES.join(" ")}

Training and workers among themselves have benches of their own:
  node bench/training.ts                                                       steps/s on servers and workers of this machine, beside one process
  node bench/learning-rates.ts                                                 what BSP, SSP and ASP make of one learning rate
  weighbridge launch -s 1 -w 2 -- bench/all-reduce.ts            sums among two workers, and the link's own ceiling`;

/** Throws with a message for the user. Names may follow one `--case` or have one each. */
export function parseOptions(args: readonly string[]): Options {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      json: { type: "string" },
      quick: { type: "boolean", default: false },
      case: { type: "string", multiple: true, default: [] },
      regime: { type: "string", multiple: true, default: [] },
      "raw-only": { type: "boolean", default: false },
    },
  });
  if (values["raw-only"] && values.json !== undefined)
    throw new Error("--raw-only measures nothing of ours, so there is nothing for --json");
  return {
    effort: values.quick ? QUICK : FULL,
    caseNames: chosen("case", [...values.case, ...positionals], CASE_NAMES),
    regimes: chosen("regime", values.regime, REGIMES),
    rawOnly: values["raw-only"],
    jsonFile: values.json,
  };
}

/** What was named, in the order of what is known; everything when nothing was named. */
function chosen<T extends string>(what: string, named: readonly string[], known: readonly T[]): readonly T[] {
  const unknown = named.find((name) => !known.some((one) => one === name));
  if (unknown !== undefined) throw new Error(`no ${what} is named ${unknown}; there are\n  ${known.join("\n  ")}`);
  return named.length === 0 ? known : known.filter((one) => named.includes(one));
}
