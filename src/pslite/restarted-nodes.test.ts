// Goal: others hear of a node in a new incarnation when it can be asked, in the end in any case, and never of an
// incarnation that is over.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SimClock } from "../testing/sim-clock.ts";
import { CALL_MS, RestartedNodes, SETTLE_MS } from "./restarted-nodes.ts";

function started(): { clock: SimClock; restarted: RestartedNodes; told: string[]; keep: (incarnation: number, word: string) => void } {
  const clock = new SimClock();
  const restarted = new RestartedNodes(clock);
  const told: string[] = [];
  const keep = (incarnation: number, word: string): void => restarted.whenReady({ node: 8, incarnation }, () => told.push(word));
  return { clock, restarted, told, keep };
}

test("what is kept back is told once the node calls by its name, in order, and later words at once (RestartedNodes.N1)", async () => {
  const { clock, restarted, told, keep } = started();
  keep(2, "to one");
  keep(2, "to another");
  restarted.called({ node: 10, incarnation: 2 }, true);
  restarted.called({ node: 8, incarnation: 1 }, true);
  assert.deepEqual(told, [], "neither another node nor an earlier incarnation is the one");
  restarted.called({ node: 8, incarnation: 2 }, true);
  keep(2, "to a third");
  await clock.advance(2 * CALL_MS);
  assert.deepEqual(told, ["to one", "to another", "to a third"]);
});

test("a node that never calls is told of after CALL_MS, not before (RestartedNodes.N2)", async () => {
  const { clock, told, keep } = started();
  keep(2, "late");
  await clock.advance(CALL_MS - 1);
  assert.deepEqual(told, []);
  await clock.advance(1);
  assert.deepEqual(told, ["late"]);
});

test("of a program of ps-lite others hear SETTLE_MS after its call, once, however often it calls and whatever follows (RestartedNodes.N4)", async () => {
  const { clock, restarted, told, keep } = started();
  keep(2, "to one");
  restarted.called({ node: 8, incarnation: 2 }, false);
  await clock.advance(SETTLE_MS - 1);
  assert.deepEqual(told, []);
  restarted.called({ node: 8, incarnation: 2 }, false);
  keep(2, "to another");
  await clock.advance(1);
  assert.deepEqual(told, ["to one", "to another"]);
  keep(2, "to a third");
  await clock.advance(2 * CALL_MS);
  assert.deepEqual(told, ["to one", "to another", "to a third"]);
});

test("of an incarnation that was replaced before it called nothing is told, nor of one that is named again later (RestartedNodes.N3)", async () => {
  const { clock, restarted, told, keep } = started();
  keep(2, "second");
  keep(3, "third");
  keep(2, "second again");
  restarted.called({ node: 8, incarnation: 2 }, true);
  assert.deepEqual(told, []);
  restarted.called({ node: 8, incarnation: 3 }, true);
  await clock.advance(2 * CALL_MS);
  assert.deepEqual(told, ["third"]);
});

test("after close nothing is told", async () => {
  const { clock, restarted, told, keep } = started();
  keep(2, "late");
  restarted.called({ node: 8, incarnation: 2 }, false);
  restarted.close();
  await clock.advance(2 * CALL_MS);
  assert.deepEqual(told, []);
});
