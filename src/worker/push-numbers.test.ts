// push-numbers — Goal: every push of a worker has the next number of its parameter, and is told of until every server
// has heard.

import assert from "node:assert/strict";
import { test } from "node:test";
import { PushNumbers } from "./push-numbers.ts";

const told = (numbers: PushNumbers, clock: number): string[] => {
  const { clocks, parameters, numbers: last } = numbers.before(clock);
  return [...clocks].map((at, i) => `${at}: ${parameters[i]} ${last[i]}`);
};

test("pushes to each parameter are numbered from 1 on, over clocks (N1)", () => {
  const numbers = new PushNumbers();
  assert.deepEqual([numbers.next(1, 0), numbers.next(1, 0), numbers.next(2, 0), numbers.next(1, 1)], [1, 2, 1, 3]);
  assert.deepEqual([numbers.last(1), numbers.last(2), numbers.last(3)], [3, 1, 0]);
  assert.deepEqual(told(numbers, 1), ["0: 1 2", "0: 2 1"]);
  assert.deepEqual(told(numbers, 2), ["0: 1 2", "0: 2 1", "1: 1 3"]);
  assert.deepEqual(numbers.all(), { parameters: Uint32Array.of(1, 2), numbers: Uint32Array.of(3, 1) });
});

test("what every server has heard of, and a clock that is begun anew, is told no more; the numbers go on", () => {
  const numbers = new PushNumbers();
  for (const clock of [0, 1, 2]) numbers.next(1, clock);
  numbers.heard(1);
  numbers.drop(2);
  assert.deepEqual(told(numbers, 9), ["1: 1 2"]);
  assert.equal(numbers.next(1, 2), 4);
  assert.deepEqual(told(numbers, 9), ["1: 1 2", "2: 1 4"]);
  numbers.cleared(1);
  assert.deepEqual(told(numbers, 9), []);
});

test("of more clocks than are kept the oldest are told as one, and no push is left out (N2)", () => {
  const numbers = new PushNumbers();
  numbers.next(2, 0);
  for (let clock = 0; clock < 100; clock++) numbers.next(1, clock);
  const all = told(numbers, 100);
  assert.equal(all.length, 65);
  assert.deepEqual(new Set(all.slice(0, 2)), new Set(["36: 1 37", "36: 2 1"]));
  assert.equal(all.at(-1), "99: 1 100");
});
