// quality — how well weights predict clicks they were not trained on.

import { FIELD_COUNT, type Impressions, sigmoid } from "./click-world.ts";

export type Quality = {
  /** Share of impressions whose outcome was foretold. */
  readonly accuracy: number;
  /** How likely a clicked impression scores above one that was not: 0.5 is guessing. */
  readonly auc: number;
  /** Mean surprise; ln 2 = 0.693 is guessing. */
  readonly logLoss: number;
};

export function qualityOf(weights: Float32Array, { count, features, clicks }: Impressions): Quality {
  const scores = new Float64Array(count);
  let right = 0;
  let surprise = 0;
  for (let i = 0; i < count; i++) {
    const score = scoreOf(weights, features, i);
    const isClicked = clicks[i] === 1;
    scores[i] = score;
    if (score > 0 === isClicked) right++;
    surprise -= Math.log(Math.max(sigmoid(isClicked ? score : -score), 1e-9));
  }
  return { accuracy: right / count, auc: areaUnderCurve(scores, clicks), logLoss: surprise / count };
}

export function scoreOf(weights: Float32Array, features: Uint32Array, impression: number): number {
  let score = 0;
  for (let at = impression * FIELD_COUNT; at < (impression + 1) * FIELD_COUNT; at++) score += weights[features[at] as number] as number;
  return score;
}

/** By ranks; equal scores share theirs. */
function areaUnderCurve(scores: Float64Array, clicks: Uint8Array): number {
  const order = Uint32Array.from(scores, (_, i) => i).sort((a, b) => (scores[a] as number) - (scores[b] as number));
  let clickCount = 0;
  let rankSum = 0;
  for (let from = 0, to = 0; from < order.length; from = to) {
    const score = scores[order[from] as number];
    let tied = 0;
    for (; to < order.length && scores[order[to] as number] === score; to++) tied += clicks[order[to] as number] as number;
    clickCount += tied;
    rankSum += (tied * (from + 1 + to)) / 2;
  }
  const otherCount = scores.length - clickCount;
  return (rankSum - (clickCount * (clickCount + 1)) / 2) / (clickCount * otherCount);
}
