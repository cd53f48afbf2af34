// flight-features — what a model may know of a flight before it leaves, as ids of one table: a field after the other, so that every feature has its own row.
// Pure: the same flights give the same ids, on every worker.

import type { Flights } from "./flights.ts";

/** A flight that is later than this is late, as the statistics of the United States have it. */
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
