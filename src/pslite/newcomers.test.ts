// Goal: others hear of a node in a new life when it can be asked, in the end in any case, and never of a life that is over.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SimClock } from "../testing/sim-clock.ts";
import { CALL_MS, Newcomers, SETTLE_MS } from "./newcomers.ts";

function started(): { clock: SimClock; newcomers: Newcomers; told: string[]; keep: (incarnation: number, word: string) => void } {
  const clock = new SimClock();
  const newcomers = new Newcomers(clock);
  const told: string[] = [];
  const keep = (incarnation: number, word: string): void => newcomers.whenThere({ node: 8, incarnation }, () => told.push(word));
  return { clock, newcomers, told, keep };
}

test("what is kept back is told once the node calls by its name, in order, and later words at once (N1)", async () => {
  const { clock, newcomers, told, keep } = started();
  keep(2, "to one");
  keep(2, "to another");
  newcomers.called({ node: 10, incarnation: 2 }, true);
  newcomers.called({ node: 8, incarnation: 1 }, true);
  assert.deepEqual(told, [], "neither another node nor an earlier life is the one");
  newcomers.called({ node: 8, incarnation: 2 }, true);
  keep(2, "to a third");
  await clock.advance(2 * CALL_MS);
  assert.deepEqual(told, ["to one", "to another", "to a third"]);
});

test("a node that never calls is told of after CALL_MS, not before (N2)", async () => {
  const { clock, told, keep } = started();
  keep(2, "late");
  await clock.advance(CALL_MS - 1);
  assert.deepEqual(told, []);
  await clock.advance(1);
  assert.deepEqual(told, ["late"]);
});

test("of a program of ps-lite others hear SETTLE_MS after its call, once, however often it calls and whatever follows (N4)", async () => {
  const { clock, newcomers, told, keep } = started();
  keep(2, "to one");
  newcomers.called({ node: 8, incarnation: 2 }, false);
  await clock.advance(SETTLE_MS - 1);
  assert.deepEqual(told, []);
  newcomers.called({ node: 8, incarnation: 2 }, false);
  keep(2, "to another");
  await clock.advance(1);
  assert.deepEqual(told, ["to one", "to another"]);
  keep(2, "to a third");
  await clock.advance(2 * CALL_MS);
  assert.deepEqual(told, ["to one", "to another", "to a third"]);
});

test("of a life that was replaced before it called nothing is told, nor of one that is named again later (N3)", async () => {
  const { clock, newcomers, told, keep } = started();
  keep(2, "second");
  keep(3, "third");
  keep(2, "second again");
  newcomers.called({ node: 8, incarnation: 2 }, true);
  assert.deepEqual(told, []);
  newcomers.called({ node: 8, incarnation: 3 }, true);
  await clock.advance(2 * CALL_MS);
  assert.deepEqual(told, ["third"]);
});

test("after close nothing is told", async () => {
  const { clock, newcomers, told, keep } = started();
  keep(2, "late");
  newcomers.called({ node: 8, incarnation: 2 }, false);
  newcomers.close();
  await clock.advance(2 * CALL_MS);
  assert.deepEqual(told, []);
});
