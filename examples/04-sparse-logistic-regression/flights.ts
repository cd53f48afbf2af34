// flights — departures in the United States in 2001, as sparse examples: which features a flight has, and whether it
// came late. The data set comes with the npm package vega-datasets; each worker reads its own share of it.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { zstdDecompressSync } from "node:zlib";
import { parquetReadObjects } from "hyparquet";
import { hashKey } from "weighbridge";

/** Late is what the statistics of the United States call so. */
const LATE_MINUTES = 15;
/** hour, weekday, month, origin, destination, route, distance, hour at the origin. */
export const FEATURES_PER_FLIGHT = 8;

export type Flights = {
  readonly count: number;
  /** FEATURES_PER_FLIGHT keys for each flight. */
  readonly features: BigUint64Array;
  /** 1 for a late one. */
  readonly late: Uint8Array;
};

type Row = {
  readonly date: Date;
  readonly delay: bigint;
  readonly distance: bigint;
  readonly origin: string;
  readonly destination: string;
};

/** The flights from `from` up to `to` of three million. */
export async function readFlights(from: number, to: number): Promise<Flights> {
  const path = join(dirname(createRequire(import.meta.url).resolve("vega-datasets")), "../data/flights-3m.parquet");
  const bytes = readFileSync(path);
  const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer;
  const rows = (await parquetReadObjects({
    file,
    rowStart: from,
    rowEnd: to,
    compressors: { ZSTD: (page: Uint8Array) => zstdDecompressSync(page) },
  })) as unknown as Row[];
  const features = new BigUint64Array(rows.length * FEATURES_PER_FLIGHT);
  const late = new Uint8Array(rows.length);
  rows.forEach((row, i) => {
    features.set(featuresOf(row), i * FEATURES_PER_FLIGHT);
    late[i] = Number(row.delay) > LATE_MINUTES ? 1 : 0;
  });
  return { count: rows.length, features, late };
}

/** A feature's key is the hash of its name: no dictionary is kept. */
function featuresOf({ date, distance, origin, destination }: Row): bigint[] {
  const hour = date.getUTCHours();
  return [
    `hour ${hour}`,
    `weekday ${date.getUTCDay()}`,
    `month ${date.getUTCMonth()}`,
    `from ${origin}`,
    `to ${destination}`,
    `route ${origin} ${destination}`,
    `distance ${Math.floor(Number(distance) / 250)}`,
    `from ${origin} at ${hour}`,
  ].map(hashKey);
}
