// area-under-curve — how likely a late flight scores above one in time: 0.5 is guessing. By ranks; equal scores share
// theirs.

export function areaUnderCurve(scores: Float64Array, labels: Uint8Array): number {
  const order = Uint32Array.from(scores, (_, i) => i).sort((a, b) => (scores[a] as number) - (scores[b] as number));
  let positives = 0;
  let rankSum = 0;
  for (let from = 0, to = 0; from < order.length; from = to) {
    const score = scores[order[from] as number];
    let tied = 0;
    for (; to < order.length && scores[order[to] as number] === score; to++) tied += labels[order[to] as number] as number;
    positives += tied;
    rankSum += (tied * (from + 1 + to)) / 2;
  }
  return (rankSum - (positives * (positives + 1)) / 2) / (positives * (labels.length - positives));
}
