// ratings — users' ratings of items, drawn from a known truth: a matrix of low rank plus noise. The best possible error
// is therefore known: `NOISE`, which no model can predict. Pure: the same seed draws the same ratings.

import { badArgument } from "../../base/errors.ts";
import { Random } from "../../base/random.ts";

export const USER_COUNT = 2_000;
export const ITEM_COUNT = 1_000;
/** The rank of the truth. */
export const RANK = 6;
/** The standard deviation of what no model can know. */
export const NOISE = 0.25;

export type Ratings = {
  readonly count: number;
  readonly users: Uint16Array;
  readonly items: Uint16Array;
  /** Around 0, with a standard deviation of about 1 without the noise. */
  readonly scores: Float32Array;
};

/** `count` ratings of random users and items. Throws BAD_ARGUMENT. */
export function drawRatings({ count, seed }: { readonly count: number; readonly seed: number }): Ratings {
  if (!(Number.isSafeInteger(count) && count >= 1)) throw badArgument(`expected a number of ratings, got ${count}`);
  const random = new Random(seed);
  // Each of the RANK products has a variance of 1 / RANK.
  const tastes = Float64Array.from({ length: (USER_COUNT + ITEM_COUNT) * RANK }, () => bell(random) * RANK ** -0.25);
  const users = new Uint16Array(count);
  const items = new Uint16Array(count);
  const scores = new Float32Array(count);
  for (let i = 0; i < count; i++) {
    const [user, item] = [random.below(USER_COUNT), random.below(ITEM_COUNT)];
    let score = NOISE * bell(random);
    for (let j = 0; j < RANK; j++) score += tastes[user * RANK + j]! * tastes[(USER_COUNT + item) * RANK + j]!;
    users[i] = user;
    items[i] = item;
    scores[i] = score;
  }
  return { count, users, items, scores };
}

/** Normally distributed (Box–Muller). */
function bell(random: Random): number {
  return Math.sqrt(-2 * Math.log(1 - random.fraction())) * Math.cos(2 * Math.PI * random.fraction());
}
