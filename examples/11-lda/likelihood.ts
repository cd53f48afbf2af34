// likelihood — how well topics explain the words: log p(words, topics) of LDA with everything else summed out
// (Griffiths and Steyvers, 2004). It has a part for the topics and one for the documents.

/** Of all words: `counts` has how often each topic was given to each word, word by word. */
export function topicsLikelihood(counts: Int32Array, topics: number, beta: number): number {
  const words = counts.length / topics;
  let sum = 0;
  for (let topic = 0; topic < topics; topic++) {
    let total = 0;
    for (let word = 0; word < words; word++) {
      const count = counts[word * topics + topic]!;
      total += count;
      sum += logGamma(count + beta);
    }
    sum += logGamma(words * beta) - words * logGamma(beta) - logGamma(total + words * beta);
  }
  return sum;
}

/** Of the documents, one behind the other: `counts` has how often each topic was given to words of each. */
export function documentsLikelihood(counts: Int32Array, topics: number, alpha: number): number {
  let sum = 0;
  for (let document = 0; document < counts.length; document += topics) {
    let total = 0;
    for (let topic = 0; topic < topics; topic++) {
      total += counts[document + topic]!;
      sum += logGamma(counts[document + topic]! + alpha);
    }
    sum += logGamma(topics * alpha) - topics * logGamma(alpha) - logGamma(total + topics * alpha);
  }
  return sum;
}

/**
 * The logarithm of the gamma function, for arguments above 0: Stirling's series behind a few steps of its recurrence.
 */
function logGamma(x: number): number {
  let factors = 1;
  for (; x < 8; x++) factors *= x;
  const square = 1 / (x * x);
  const series = (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680))) / x;
  return (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + series - Math.log(factors);
}
