// kv-recut — what servers refused of a kv request because the placement had changed, cut by the new ranges. Pure; the
// router sends it.
//
// Invariants:
//   KvRecut.K1. Every key and value of the refused calls is carried once, and nothing else; pieces of a long value stay
//       the pieces they were, and in order.
//   KvRecut.K2. Of a part that its server gathers as a whole (spec/protocol.md, K11) everything travels again: what
//       it took before the refusal, it dropped.

import { sliceByRange, soleOwner } from "../../keys/key-list.ts";
import type { Range } from "../../keys/key-range.ts";
import type { KvPart } from "../../wire/kv-spans.ts";
import type { KvFrame } from "../kv-frame.ts";
import { cutPart, eachPart, KvCall, type KvRequest } from "../kv-request.ts";

/** A run of keys, or of pieces of one key's value. */
type Run = { readonly part: KvPart; readonly pieces: readonly KvFrame[] };

/** Where the calls go: to the ranges that a placement gives its servers. */
export type KvRanges = { readonly ranges: readonly Range[]; readonly epoch: number };

/** The calls of each range, by its index. */
export function cutKvAgain(request: KvRequest, refused: readonly KvFrame[], { ranges, epoch }: KvRanges): readonly (readonly KvCall[])[] {
  const callsOfRange: KvCall[][] = ranges.map(() => []);
  for (const { part, pieces } of runsOf(refused)) {
    const keys = request.keys.subarray(part.keyFrom, part.keyTo);
    if (pieces.length > 0) callsOfRange[soleOwner(keys, ranges)]?.push(...piecesAgain(request, { part, pieces }, epoch));
    else eachPart(request, sliceByRange(keys, ranges), part, (cut, range) => callsOfRange[range]?.push(...cutPart(request, cut, epoch)));
  }
  return callsOfRange;
}

function piecesAgain(request: KvRequest, { part, pieces }: Run, epoch: number): KvCall[] {
  return pieces.map(({ keyFrom, keyTo, valueFrom, valueTo, width, pieceOffset }, i) => {
    const span = { keyFrom, keyTo, valueFrom, valueTo, width, pieceOffset, isLast: i === pieces.length - 1 };
    return new KvCall(request, span, epoch, part);
  });
}

function runsOf(refused: readonly KvFrame[]): readonly Run[] {
  // KvRecut.K2
  const gathered = new Set(refused.filter(({ part }) => part.isGathered === true).map(({ part }) => part));
  const runs: Run[] = [...gathered].map(({ keyFrom, keyTo, valueFrom, valueTo }) => ({
    part: { keyFrom, keyTo, valueFrom, valueTo },
    pieces: [],
  }));
  const others = refused.filter(({ part }) => part.isGathered !== true);
  others.sort((a, b) => a.keyFrom - b.keyFrom || a.pieceOffset - b.pieceOffset);
  for (const call of others) {
    const { keyFrom, keyTo, valueFrom, valueTo } = call;
    const last = runs.at(-1);
    const isPiece = call.pieceOffset >= 0;
    const isMore = last !== undefined && last.part.valueTo === valueFrom && isPiece === last.pieces.length > 0;
    if (isMore && last.part[isPiece ? "keyFrom" : "keyTo"] === keyFrom) {
      runs[runs.length - 1] = { part: { ...last.part, keyTo, valueTo }, pieces: isPiece ? [...last.pieces, call] : [] };
    } else runs.push({ part: { keyFrom, keyTo, valueFrom, valueTo }, pieces: isPiece ? [call] : [] });
  }
  return runs;
}
