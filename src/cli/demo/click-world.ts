// click-world — people, advertisements and what happens when they meet: synthetic data with a known truth. An impression has one feature of
// each field; rare ones are rare, as in life (Zipf). Whether it is clicked is drawn from a logistic model with weights that nobody is told.

/** How many features each field has, and how much they matter (the spread of their weights). */
const FIELDS: readonly { readonly name: string; readonly size: number; readonly spread: number }[] = [
  { name: "visitor group", size: 9000, spread: 1.3 },
  { name: "advertisement", size: 6000, spread: 1.2 },
  { name: "site", size: 4000, spread: 0.9 },
  { name: "region", size: 500, spread: 0.5 },
  { name: "topic", size: 268, spread: 0.7 },
  { name: "hour of the week", size: 168, spread: 0.4 },
  { name: "device", size: 48, spread: 0.4 },
  { name: "place on the page", size: 16, spread: 0.8 },
];
const ZIPF_EXPONENT = 1.05;

export const FIELD_COUNT: number = FIELDS.length;
export const FEATURE_COUNT: number = FIELDS.reduce((sum, { size }) => sum + size, 0);

export type Impressions = {
  readonly count: number;
  /** FIELD_COUNT features of each impression, one impression after the other. */
  readonly features: Uint32Array;
  /** 1: clicked. */
  readonly clicks: Uint8Array;
};

export class ClickWorld {
  /** What a perfect learner would find. */
  readonly trueWeights: Float32Array = new Float32Array(FEATURE_COUNT);
  /** Of each field: how likely its features up to this one are, together. */
  readonly #cumulative: readonly Float64Array[];

  /** The same seed makes the same world. */
  constructor(seed: number) {
    const random = randomFrom(seed);
    let feature = 0;
    for (const { size, spread } of FIELDS) {
      for (let i = 0; i < size; i++) this.trueWeights[feature++] = spread * bell(random);
    }
    this.#cumulative = FIELDS.map(({ size }) => zipf(size));
  }

  /** Draws impressions; the same seed draws the same ones. */
  draw(count: number, seed: number): Impressions {
    const random = randomFrom(seed);
    const features = new Uint32Array(count * FIELD_COUNT);
    const clicks = new Uint8Array(count);
    for (let i = 0, at = 0; i < count; i++) {
      let score = 0;
      let fieldStart = 0;
      for (const cumulative of this.#cumulative) {
        const feature = fieldStart + indexAbove(cumulative, random());
        features[at++] = feature;
        score += this.trueWeights[feature] as number;
        fieldStart += cumulative.length;
      }
      clicks[i] = random() < sigmoid(score) ? 1 : 0;
    }
    return { count, features, clicks };
  }
}

export function sigmoid(score: number): number {
  return 1 / (1 + Math.exp(-score));
}

/** A small seeded generator of numbers in [0, 1) (splitmix32). */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    let x = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
    x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
    return ((x ^ (x >>> 15)) >>> 0) / 2 ** 32;
  };
}

/** Normally distributed (Box–Muller). */
function bell(random: () => number): number {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}

function zipf(size: number): Float64Array {
  const cumulative = new Float64Array(size);
  let sum = 0;
  for (let i = 0; i < size; i++) {
    sum += (i + 1) ** -ZIPF_EXPONENT;
    cumulative[i] = sum;
  }
  return cumulative.map((value) => value / sum);
}

/** The first index whose value is above `value`. */
function indexAbove(ascending: Float64Array, value: number): number {
  let low = 0;
  let high = ascending.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ascending[middle] as number) > value) high = middle;
    else low = middle + 1;
  }
  return low;
}
