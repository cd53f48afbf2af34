// ratings — who likes what, drawn by seed from a known truth: the product of two short vectors, and noise.

import { Random } from "weighbridge/testing";

export const USERS = 480;
export const ITEMS = 200;
export const RANK = 6;
const RATINGS_PER_USER = 60;
const NOISE = 0.2;
const SEED = 11;

export type Rating = { readonly user: number; readonly item: number; readonly score: number };

/** Of the users u for which u mod `workers` is `worker`: each has its own. */
export function ratingsOf(worker: number, workers: number): Rating[] {
  const random = new Random(SEED);
  const [users, items] = [USERS, ITEMS].map((count) => Array.from({ length: count * RANK }, () => normal(random) * 0.7)) as [
    number[],
    number[],
  ];
  const ratings: Rating[] = [];
  for (let user = 0; user < USERS; user++) {
    for (let i = 0; i < RATINGS_PER_USER; i++) {
      const item = random.below(ITEMS);
      let score = NOISE * normal(random);
      for (let k = 0; k < RANK; k++) score += (users[user * RANK + k] as number) * (items[item * RANK + k] as number);
      if (user % workers === worker) ratings.push({ user, item, score });
    }
  }
  for (let i = ratings.length - 1; i > 0; i--) {
    const j = random.below(i + 1);
    [ratings[i], ratings[j]] = [ratings[j] as Rating, ratings[i] as Rating];
  }
  return ratings;
}

/** Of the normal distribution. */
export function normal(random: Random): number {
  return Math.sqrt(-2 * Math.log(1 - random.fraction())) * Math.cos(2 * Math.PI * random.fraction());
}
