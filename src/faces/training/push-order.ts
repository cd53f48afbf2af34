// push-order — after which stage's backward each gradient of a network is given, with overlap: the same in every step and at every worker. Pure.
//
// To let something out costs a worker: a turn of its event loop, a write for each server it concerns, and the core that these want when they wake. So a large gradient
// leaves when it is final, and small ones leave together, once there are enough of them or with the last.
//
// Invariants:
//   G1. Each gradient is given once, not before the backward of its own stage.
//   G2. Nothing but the stages decides: workers that reduce among themselves begin their sums in the same order (training-group, W3).

import type { Parameter } from "../../nn/parameter.ts";
import type { EmbeddingLookup } from "./embedding-lookup.ts";
import type { Stage } from "./network.ts";

/** Fewer bytes are not worth a pause of their own. */
export const GIVEN_BYTES_MIN: number = 128 * 1024;
const FLOAT_BYTES = 4;

/** A gradient: of a parameter, or of the rows that a lookup has taken. */
export type Given = { readonly parameter: Parameter } | { readonly lookup: EmbeddingLookup };

/** For each stage, in their order, what is given when its backward has returned. The backward goes from the last to the first. */
export function pushOrder(stages: readonly Pick<Stage, "parameters" | "lookup">[]): readonly (readonly Given[])[] {
  const groups: Given[][] = stages.map(() => []);
  let waiting: Given[] = [];
  let waitingBytes = 0;
  for (let i = stages.length - 1; i >= 0; i--) {
    for (const given of givensOf(stages[i]!)) {
      const byteCount = bytesOf(given);
      if (byteCount >= GIVEN_BYTES_MIN) groups[i]!.push(given);
      else {
        waiting.push(given);
        waitingBytes += byteCount;
      }
    }
    if (waitingBytes < GIVEN_BYTES_MIN && i > 0) continue;
    groups[i]!.push(...waiting);
    [waiting, waitingBytes] = [[], 0];
  }
  return groups;
}

function givensOf({ lookup, parameters }: Pick<Stage, "parameters" | "lookup">): readonly Given[] {
  return [...(lookup === undefined ? [] : [{ lookup }]), ...parameters.map((parameter) => ({ parameter }))];
}

/** Of a lookup at most: that of a batch of distinct ids. One whose table is a parameter gives that, and nothing itself. */
function bytesOf(given: Given): number {
  if ("parameter" in given) return given.parameter.gradient.byteLength;
  const { sparse, idsPerSample, sampleCountMax, width } = given.lookup.options;
  return sparse ? idsPerSample * sampleCountMax * width * FLOAT_BYTES : 0;
}
