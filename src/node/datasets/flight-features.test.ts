// Goal: every feature of a flight has an id of its own, and nothing of what is to be foretold is among them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { FEATURES_PER_FLIGHT, flightFeatures } from "./flight-features.ts";
import type { Flights } from "./flights.ts";

function flights(changes: Partial<Flights> = {}): Flights {
  return {
    count: 2,
    hours: Uint8Array.of(0, 23),
    weekdays: Uint8Array.of(0, 6),
    months: Uint8Array.of(0, 11),
    origins: Uint16Array.of(0, 2),
    destinations: Uint16Array.of(1, 2),
    distancesMiles: Uint16Array.of(0, 65_535),
    delaysMin: Int16Array.of(15, 16),
    airports: ["A", "B", "C"],
    ...changes,
  };
}

test("ids of different fields never meet, and all are below the vocabulary's size", () => {
  const { ids, vocabSize } = flightFeatures(flights());
  assert.equal(vocabSize, 24 + 7 + 12 + 3 + 3 + 9 + 24 + 72);
  assert.deepEqual([...ids.subarray(0, FEATURES_PER_FLIGHT)], [0, 24, 31, 43, 47, 50, 58, 82]);
  assert.deepEqual([...ids.subarray(FEATURES_PER_FLIGHT)], [23, 30, 42, 45, 48, 57, 81, 153]);
  assert.equal(vocabSize, 154);
});

test("late is more than 15 minutes, and changes no feature", () => {
  assert.deepEqual([...flightFeatures(flights()).late], [0, 1]);
  const onTime = flightFeatures(flights({ delaysMin: Int16Array.of(-5, 0) }));
  assert.deepEqual([...onTime.late], [0, 0]);
  assert.deepEqual(onTime.ids, flightFeatures(flights()).ids);
});
