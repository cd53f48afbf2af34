// flights — departures in the United States in the first months of 2001, from the npm package vega-datasets: three
// million, in order of time, column by column. Airports are numbers, whose names are listed.

import { readFileSync } from "node:fs";
import { zstdDecompressSync } from "node:zlib";
import { badArgument, reasonOf, WeighbridgeError } from "../../base/errors.ts";
import { packageFile } from "./package-file.ts";

const MAGIC = "PAR1";
const READER = "hyparquet";
/** The columns we read, and the type of their values. */
const COLUMNS = {
  date: (value: unknown): boolean => value instanceof Date,
  delay: (value: unknown): boolean => typeof value === "bigint",
  distance: (value: unknown): boolean => typeof value === "bigint",
  origin: (value: unknown): boolean => typeof value === "string",
  destination: (value: unknown): boolean => typeof value === "string",
} as const;
type Column = keyof typeof COLUMNS;

export type Flights = {
  readonly count: number;
  /** Of departure, local: hour 0 to 23, weekday 0 (Sunday) to 6, month 0 to 11. */
  readonly hours: Uint8Array;
  readonly weekdays: Uint8Array;
  readonly months: Uint8Array;
  /** Indices into `airports`. */
  readonly origins: Uint16Array;
  readonly destinations: Uint16Array;
  readonly distancesMiles: Uint16Array;
  /** Minutes behind schedule; below 0 ahead of it. */
  readonly delaysMin: Int16Array;
  /** The names of all airports that occur, ascending: equal ranges of flights have equal numbers. */
  readonly airports: readonly string[];
};

type FlightsOptions = {
  /** How many flights, from the first on. */
  readonly count: number;
  /** A parquet file with the same columns; by default that of the package. */
  readonly path?: string | undefined;
};

/** Throws DATASET_MISSING, DATASET_FOREIGN or DATASET_TORN, naming the file, and BAD_ARGUMENT if there are fewer. */
export async function readFlights({
  count,
  path = packageFile("vega-datasets", "data/flights-3m.parquet"),
}: FlightsOptions): Promise<Flights> {
  const file = readParquet(path);
  const { parquetMetadata, parquetRead } = await reader();
  const compressors = { ZSTD: (page: Uint8Array): Uint8Array => zstdDecompressSync(page) };
  const columns: Record<Column, unknown[]> = { date: [], delay: [], distance: [], origin: [], destination: [] };
  let rowCount: number;
  try {
    const metadata = parquetMetadata(file);
    rowCount = Number(metadata.num_rows);
    checkColumns(
      path,
      metadata.schema.map(({ name }) => name),
    );
    if (count <= rowCount) {
      await parquetRead({
        file,
        metadata,
        columns: Object.keys(COLUMNS),
        rowEnd: count,
        compressors,
        onChunk: ({ columnName, columnData, rowStart }) => copyAt(columns[columnName as Column], columnData, rowStart),
      });
    }
  } catch (error) {
    if (error instanceof WeighbridgeError) throw error;
    throw new WeighbridgeError("DATASET_TORN", `${path} cannot be read to its end: ${reasonOf(error)}`, { cause: error });
  }
  if (count > rowCount) throw badArgument(`${path} has ${rowCount} flights, not ${count}`);
  checkValues(path, columns, count);
  return flightsOf(columns, count);
}

/** The number of flights, from the file's footer; undefined if it cannot be read. */
export async function countFlights(path: string = packageFile("vega-datasets", "data/flights-3m.parquet")): Promise<number | undefined> {
  try {
    const { parquetMetadataAsync } = await reader();
    const { asyncBufferFromFile } = await import("hyparquet");
    return Number((await parquetMetadataAsync(await asyncBufferFromFile(path))).num_rows);
  } catch {
    return undefined; // `readFlights` reports what is wrong.
  }
}

/** The file's bytes. Throws unless they begin and end as a parquet file does. */
function readParquet(path: string): ArrayBuffer {
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch (error) {
    throw new WeighbridgeError("DATASET_MISSING", `${path} cannot be read: ${reasonOf(error)}`, { cause: error });
  }
  const [head, tail] = [bytes.toString("latin1", 0, MAGIC.length), bytes.toString("latin1", bytes.length - MAGIC.length)];
  if (head !== MAGIC) {
    throw new WeighbridgeError(
      "DATASET_FOREIGN",
      `${path} is no parquet file: it begins with ${JSON.stringify(head)}, expected "${MAGIC}"`,
    );
  }
  if (tail !== MAGIC || bytes.length < 2 * MAGIC.length) {
    throw new WeighbridgeError(
      "DATASET_TORN",
      `${path} is not whole: after ${bytes.length} bytes it ends with ${JSON.stringify(tail)}, expected "${MAGIC}"`,
    );
  }
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer;
}

async function reader(): Promise<typeof import("hyparquet")> {
  try {
    return await import("hyparquet");
  } catch (error) {
    throw new WeighbridgeError(
      "DATASET_MISSING",
      `the flights are read with the npm package ${READER}, which is not installed (npm install ${READER}): ${reasonOf(error)}`,
      { cause: error },
    );
  }
}

function checkColumns(path: string, names: readonly string[]): void {
  const missing = Object.keys(COLUMNS).filter((column) => !names.includes(column));
  if (missing.length === 0) return;
  throw new WeighbridgeError(
    "DATASET_FOREIGN",
    `${path} is another data set: expected columns ${Object.keys(COLUMNS).join(", ")}; ${missing.join(", ")} is missing`,
  );
}

function checkValues(path: string, columns: Readonly<Record<Column, unknown[]>>, count: number): void {
  for (const [name, isOfKind] of Object.entries(COLUMNS)) {
    const values = columns[name as Column];
    const bad = values.findIndex((value) => !isOfKind(value));
    if (bad !== -1 || values.length < count) {
      const found = bad === -1 ? `${values.length} values of ${count}` : `${String(values[bad])} in row ${bad}`;
      throw new WeighbridgeError("DATASET_FOREIGN", `${path} is another data set: column ${name} has ${found}`);
    }
  }
}

function copyAt(values: unknown[], chunk: ArrayLike<unknown>, rowStart: number): void {
  for (let i = 0; i < chunk.length; i++) values[rowStart + i] = chunk[i];
}

function flightsOf(columns: Readonly<Record<Column, unknown[]>>, count: number): Flights {
  // Row groups are read whole: rows after the last flight are cut off.
  const [dates, delays, distances, origins, destinations] = [
    columns.date as Date[],
    columns.delay as bigint[],
    columns.distance as bigint[],
    columns.origin as string[],
    columns.destination as string[],
  ].map((values) => values.slice(0, count)) as [Date[], bigint[], bigint[], string[], string[]];
  const airports = [...new Set([...origins, ...destinations])].sort();
  const ascendingIndex = new Map(airports.map((name, at) => [name, at]));
  return {
    count,
    hours: Uint8Array.from(dates, (date) => date.getUTCHours()),
    weekdays: Uint8Array.from(dates, (date) => date.getUTCDay()),
    months: Uint8Array.from(dates, (date) => date.getUTCMonth()),
    origins: Uint16Array.from(origins, (name) => ascendingIndex.get(name) ?? 0),
    destinations: Uint16Array.from(destinations, (name) => ascendingIndex.get(name) ?? 0),
    distancesMiles: Uint16Array.from(distances, Number),
    delaysMin: Int16Array.from(delays, Number),
    airports,
  };
}

/** A flight later than this counts as late, as in the statistics of the United States. */
const LATE_MINUTES = 15;
const DISTANCE_STEP_MILES = 250;
const DISTANCE_STEPS = 24;
const HOURS = 24;
const WEEKDAYS = 7;
const MONTHS = 12;

/** hour, weekday, month, origin, destination, route, distance, hour at the origin. */
export const FEATURES_PER_FLIGHT = 8;

export type FlightFeatures = {
  /** FEATURES_PER_FLIGHT for each flight, one flight after the other. */
  readonly ids: Uint32Array;
  /** Ids are below this. */
  readonly vocabSize: number;
  /** 1 for a late one. */
  readonly late: Uint8Array;
};

export function flightFeatures({ count, airports, ...flights }: Flights): FlightFeatures {
  const airportCount = airports.length;
  const sizes = [HOURS, WEEKDAYS, MONTHS, airportCount, airportCount, airportCount ** 2, DISTANCE_STEPS, airportCount * HOURS];
  const starts = sizes.map((_, field) => sizes.slice(0, field).reduce((sum, size) => sum + size, 0));
  const ids = new Uint32Array(count * FEATURES_PER_FLIGHT);
  const late = new Uint8Array(count);
  for (let i = 0; i < count; i++) {
    const [hour, origin, destination] = [flights.hours[i]!, flights.origins[i]!, flights.destinations[i]!];
    const distance = Math.min(DISTANCE_STEPS - 1, Math.floor(flights.distancesMiles[i]! / DISTANCE_STEP_MILES));
    const route = origin * airportCount + destination;
    const values = [hour, flights.weekdays[i]!, flights.months[i]!, origin, destination, route, distance, origin * HOURS + hour];
    for (let field = 0; field < FEATURES_PER_FLIGHT; field++) ids[i * FEATURES_PER_FLIGHT + field] = starts[field]! + values[field]!;
    late[i] = flights.delaysMin[i]! > LATE_MINUTES ? 1 : 0;
  }
  return { ids, vocabSize: sizes.reduce((sum, size) => sum + size, 0), late };
}
