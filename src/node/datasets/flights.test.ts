// Goal: the flights are read column by column, and a file that is missing, cut short or of another kind is named in a
// typed error.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { type ErrorCode, isWeighbridgeError } from "../../base/errors.ts";
import { FEATURES_PER_FLIGHT, type Flights, flightFeatures, readFlights } from "./flights.ts";
import { packageFile } from "./package-file.ts";

const COUNT = 3_000;
const WHOLE = packageFile("vega-datasets", "data/flights-3m.parquet");

const directory = mkdtempSync(join(tmpdir(), "weighbridge-flights-"));
after(() => rmSync(directory, { recursive: true }));

async function assertRefused(path: string, code: ErrorCode, text: RegExp): Promise<void> {
  await assert.rejects(
    readFlights({ count: COUNT, path }),
    (error) => isWeighbridgeError(error, code) && error.message.includes(path) && text.test(error.message),
  );
}

test("the first flights are those of the file, airports as numbers with names", async () => {
  const flights = await readFlights({ count: COUNT });
  assert.equal(flights.count, COUNT);
  for (const column of [flights.hours, flights.origins, flights.destinations, flights.distancesMiles, flights.delaysMin]) {
    assert.equal(column.length, COUNT);
  }
  // The file's first row: Las Vegas to Philadelphia on 2001-01-01 at 00:01, 33 minutes late, 2176 miles.
  assert.deepEqual([flights.airports[flights.origins[0]!], flights.airports[flights.destinations[0]!]], ["LAS", "PHL"]);
  assert.deepEqual([flights.hours[0], flights.weekdays[0], flights.months[0]], [0, 1, 0]);
  assert.deepEqual([flights.delaysMin[0], flights.distancesMiles[0]], [33, 2176]);
  assert.deepEqual(flights.airports, flights.airports.toSorted());
});

test("a file that is not there is DATASET_MISSING", async () => {
  await assertRefused(join(directory, "none.parquet"), "DATASET_MISSING", /ENOENT/);
});

test("a file of another kind is DATASET_FOREIGN", async () => {
  const path = join(directory, "text.parquet");
  writeFileSync(path, "date,delay\n");
  await assertRefused(path, "DATASET_FOREIGN", /no parquet file: it begins with "date", expected "PAR1"/);
});

test("a file cut short is DATASET_TORN, wherever it was cut", async () => {
  const bytes = readFileSync(WHOLE);
  const path = join(directory, "cut.parquet");
  for (const length of [4, 100, bytes.length - 1]) {
    writeFileSync(path, bytes.subarray(0, length));
    await assertRefused(path, "DATASET_TORN", /not whole/);
  }
  writeFileSync(path, Buffer.concat([bytes.subarray(0, 1000), bytes.subarray(bytes.length - 4)]));
  await assertRefused(path, "DATASET_TORN", /cannot be read/);
});

test("more flights than there are is BAD_ARGUMENT with both numbers", async () => {
  await assert.rejects(
    readFlights({ count: 3_000_001 }),
    (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && /3000000 flights, not 3000001/.test(error.message),
  );
});

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
