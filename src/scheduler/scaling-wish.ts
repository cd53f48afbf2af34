// scaling-wish — what was asked of the number of servers, as the scheduler's state has it, and what it comes to. Pure.
//
// Invariants:
//   ScalingWish.W1. One change is under way at a time, the first of the list; those behind it begin when it has ended.
//   ScalingWish.W2. A rank that a server of this job has held is not given to another process by a change: no node has
//       to tell a server that came from one that was there before. A spare that asks for such a rank gets it.
//   ScalingWish.W3. When a change ends, servers outside of the placement are retired: they leave, and nobody takes
//       their ranks before they are gone.

import { badRequest, type WeighbridgeError } from "../base/errors.ts";
import { PART_COUNT } from "../keys/placement.ts";
import { idOf, nameOf } from "../wire/node-id.ts";
import type { ScaleRequest, ScalingDirection, ScalingEnd } from "../wire/scaling.ts";
import { applyToRequests, type KnownRequest, type RequestRecord } from "./known-requests.ts";

/** Servers before, and servers to be, by rank. */
export type ServerSets = { readonly from: readonly number[]; readonly to: readonly number[] };

export type ScalingWish = {
  /** 1, 2, 3 … in the order in which they were asked for. */
  readonly number: number;
  readonly ask: Pick<ScaleRequest, "to" | "add" | "leave">;
  readonly timeoutMs: number;
  /** Since it is under way. */
  readonly begun?: ServerSets | undefined;
  /** It goes back to `from`. */
  readonly isBack?: boolean | undefined;
};

export type ScalingState = {
  readonly wishes: readonly ScalingWish[];
  readonly ends: readonly ScalingEnd[];
  /** Servers that have no parts any more, and leave, by rank, until they are gone (ScalingWish.W3). */
  readonly retired: readonly number[];
  /** The number of the newest wish. */
  readonly highest: number;
  readonly requests: readonly KnownRequest[];
};

export type ScalingRecord =
  /** A wish, or what has become of it. */
  | { readonly kind: "wish"; readonly wish: ScalingWish }
  | ({ readonly kind: "wishEnd" } & ScalingEnd)
  /** All servers that are to leave, or have not left yet. */
  | { readonly kind: "retired"; readonly ranks: readonly number[] }
  | RequestRecord;

/** How many of the last changes are remembered. */
const ENDS_MAX = 8;

export function emptyScaling(): ScalingState {
  return { wishes: [], ends: [], retired: [], highest: 0, requests: [] };
}

export function applyToScaling(state: ScalingState, record: ScalingRecord): ScalingState {
  const { wishes, ends, highest } = state;
  if (record.kind === "request") return { ...state, requests: applyToRequests(state.requests, record) };
  if (record.kind === "retired") return { ...state, retired: record.ranks };
  if (record.kind === "wish") {
    const { wish } = record;
    const isKnown = wishes.some(({ number }) => number === wish.number);
    const changed = isKnown ? wishes.map((other) => (other.number === wish.number ? wish : other)) : [...wishes, wish];
    return { ...state, wishes: changed, highest: Math.max(highest, wish.number) };
  }
  const { kind: _, ...end } = record;
  return {
    ...state,
    wishes: wishes.filter(({ number }) => number !== end.number),
    ends: [...ends, end].slice(-ENDS_MAX),
    highest: Math.max(highest, end.number),
  };
}

/** The records that give this state. */
export function recordsOfScaling({ wishes, ends, retired, requests }: ScalingState): ScalingRecord[] {
  return [
    ...requests.map((request) => ({ kind: "request", ...request }) as const),
    ...ends.map((end) => ({ kind: "wishEnd", ...end }) as const),
    ...wishes.map((wish) => ({ kind: "wish", wish }) as const),
    ...(retired.length === 0 ? [] : [{ kind: "retired", ranks: retired } as const]),
  ];
}

/**
 * The servers that there are to be while the first change is under way (ScalingWish.W1); undefined: those there are.
 */
export function wishedServers({ wishes: [wish] }: ScalingState): readonly number[] | undefined {
  if (wish?.begun === undefined) return undefined;
  return wish.isBack === true ? wish.begun.from : wish.begun.to;
}

export function directionOf({ from, to }: ServerSets): ScalingDirection {
  return to.some((rank) => !from.includes(rank)) ? "out" : "in";
}

/** The direction of a change that has not begun. */
export function askedDirection({ to, leave }: ScalingWish["ask"], serverCount: number): ScalingDirection {
  return leave !== undefined || (to !== undefined && to <= serverCount) ? "in" : "out";
}

/** What is wrong with a request, whatever the servers are, if anything. */
export function checkRequest({ to, add, leave, timeoutMs = 1 }: ScaleRequest): void {
  const given = [to, add, leave].filter((one) => one !== undefined);
  if (given.length !== 1)
    throw bad("a change of the servers says one thing: to how many servers, how many more, or which ones leave", given.length);
  if (timeoutMs < 1) throw bad("new servers are waited for at least 1 ms", timeoutMs);
  if (to !== undefined && (to < 1 || to > PART_COUNT)) throw bad(`a job has 1 to ${PART_COUNT} servers`, to);
  if (add !== undefined && add < 1) throw bad("a scale-out adds at least 1 server", add);
  if (leave === undefined) return;
  if (leave.length === 0) throw bad("a scale-in names at least one server", "none");
  if (new Set(leave).size < leave.length) throw bad("a scale-in names each server once", leave.join(", "));
}

/**
 * The servers after this change of `from`. `ranksFor`: as many ranks for new servers as it is asked for. Throws
 * BAD_REQUEST.
 */
export function serversAfter(
  { to, add, leave }: ScalingWish["ask"],
  from: readonly number[],
  ranksFor: (count: number) => readonly number[],
): readonly number[] {
  if (leave !== undefined) {
    const unknown = leave.filter((rank) => !from.includes(rank));
    if (unknown.length > 0) throw bad(`the job has ${namesOf(from)}`, namesOf(unknown));
    if (leave.length === from.length) throw bad("one server stays, with the parameters of the job", `a scale-in of ${namesOf(leave)}`);
    return from.filter((rank) => !leave.includes(rank));
  }
  const count = to ?? from.length + (add ?? 0);
  if (count > PART_COUNT) throw bad(`a job has at most ${PART_COUNT} servers`, count);
  // The newest leave first.
  return count <= from.length ? from.slice(0, count) : [...from, ...ranksFor(count - from.length)].sort((a, b) => a - b);
}

export function namesOf(ranks: readonly number[]): string {
  return ranks.map((rank) => nameOf(idOf("server", rank))).join(", ");
}

function bad(rule: string, given: unknown): WeighbridgeError {
  return badRequest(`${rule}, not ${String(given)}`);
}
