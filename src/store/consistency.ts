// consistency — the user's words for how fresh reads are and when updates count, and their engine form
// (spec/consistency.md).
//
//   "bsp"           all updates of a clock count together at its end; reads see those of all clocks before, or may
//                   be `staleness` clocks behind
//   { ssp: s }      updates count when they arrive; reads are at most s clocks behind
//   { delay: d }    the same as bounded delay: work on clock t begins when everything before t - d is done
//   "asp"           updates count when they arrive; reads never wait

import { badArgument, showValue } from "../base/errors.ts";
import { didYouMean, nearestName } from "../base/nearest-name.ts";
import type { ConsistencyMode } from "../consistency/consistency-phases.ts";

/**
 * How fresh reads are, and when updates count. `"bsp"` is `{ bsp: true }`.
 *
 * @example
 * ```ts
 * consistency: "asp"; // updates count when they arrive, reads never wait
 * consistency: { ssp: 3 }; // the same, but a read is at most 3 clocks behind
 * consistency: { bsp: true, reduce: "mean" }; // all updates of a clock count together, as their mean over workers
 * ```
 */
export type Consistency =
  | "bsp"
  | "asp"
  | {
      /** All updates of a clock count together, at its end. */
      readonly bsp: true;
      /** How the updates of a clock become one: their sum over workers, or their mean. Defaults to "sum". */
      readonly reduce?: "sum" | "mean" | undefined;
      /** How many clocks a read may be behind. Defaults to 0. */
      readonly staleness?: number | undefined;
    }
  | {
      /** How many clocks a read may be behind. */
      readonly ssp: number;
    }
  | {
      /** The same as `ssp`, as bounded delay: work on clock t begins when everything before t - delay is done. */
      readonly delay: number;
    };

/** As servers have it. No staleness: any number of clocks. */
type EngineConsistency = Pick<ConsistencyMode, "updates" | "reduce"> & { readonly staleness: number | undefined };

/** Throws BAD_ARGUMENT for what is none of them. */
export function engineConsistency(consistency: Consistency): EngineConsistency {
  if (consistency === "asp") return { updates: "async", reduce: "sum", staleness: undefined };
  if (consistency === "bsp") return { updates: "sync", reduce: "sum", staleness: 0 };
  if (typeof consistency === "object" && consistency !== null && isOne(consistency)) {
    if ("bsp" in consistency && consistency.bsp === true) {
      const { reduce = "sum", staleness = 0 } = consistency;
      const isReduce = reduce === "sum" || reduce === "mean";
      if (isReduce && Number.isSafeInteger(staleness) && staleness >= 0) return { updates: "sync", reduce, staleness };
    }
    const bound = "ssp" in consistency ? consistency.ssp : "delay" in consistency ? consistency.delay : -1;
    if (Number.isSafeInteger(bound) && bound >= 0) return { updates: "async", reduce: "sum", staleness: bound };
    if (bound === Infinity) return { updates: "async", reduce: "sum", staleness: undefined };
  }
  throw badArgument(
    `consistency is "bsp", "asp", { bsp: true, reduce: "sum" | "mean", staleness: clocks }, { ssp: clocks } or { delay: clocks }, not ${showValue(consistency)}${hintOf(consistency)}`,
  );
}

/** How each of them is written, by its name. */
const WRITTEN: Readonly<Record<string, string>> = { bsp: '"bsp"', asp: '"asp"', ssp: "{ ssp: clocks }", delay: "{ delay: clocks }" };
const FIELD_NAMES: readonly string[] = ["bsp", "reduce", "staleness", "ssp", "delay"];

/** The one that a misspelt text, name or reduce meant; empty for other mistakes. */
function hintOf(consistency: unknown): string {
  if (typeof consistency === "string") return `; did you mean ${WRITTEN[nearestName(consistency, Object.keys(WRITTEN)) ?? "bsp"]}?`;
  if (typeof consistency !== "object" || consistency === null) return "";
  const unknown = Object.keys(consistency).find((name) => !FIELD_NAMES.includes(name));
  if (unknown !== undefined) return didYouMean(unknown, FIELD_NAMES);
  return "reduce" in consistency && "bsp" in consistency ? didYouMean(consistency.reduce, ["sum", "mean"]) : "";
}

/** Of two bounds one would be forgotten. */
function isOne(consistency: object): boolean {
  const names = Object.keys(consistency);
  return names.includes("bsp") ? names.every((name) => ["bsp", "reduce", "staleness"].includes(name)) : names.length === 1;
}

/** As a user writes it: what `engineConsistency` makes the same of. */
export function writtenConsistency({ updates, reduce, staleness = Infinity }: EngineConsistency): Consistency {
  if (updates === "async") return staleness === Infinity ? "asp" : { ssp: staleness };
  return reduce === "sum" && staleness === 0 ? "bsp" : { bsp: true, reduce, staleness };
}

/** The user's name for it: bsp, bsp mean, ssp:4, asp. Different modes have different names. */
export function consistencyText({ updates, reduce, staleness }: EngineConsistency): string {
  const mean = reduce === "mean" ? " mean" : "";
  if (updates === "async") return `${staleness === undefined ? "asp" : `ssp:${staleness}`}${mean}`;
  return `bsp${mean}${staleness === 0 ? "" : `, staleness ${staleness ?? "any"}`}`;
}
