// data-store — Hetu's PushData, PullData and WaitData: arrays of any length by index, distributed over the servers by
// index.

import type { Session } from "../../api/session.ts";
import type { WaitOptions } from "../../base/deferred.ts";
import { badArgument, showValue, WeighbridgeError } from "../../base/errors.ts";
import { checkWaitOptions } from "../../base/known-options.ts";
import { DATA_SCOPE, dataPull, dataPush } from "../../contracts/beside-parameters.ts";
import { listLength } from "../../worker/key-lists.ts";
import type { CallOptions } from "../../worker/parameter.ts";
import { CALL_NAMES } from "../../worker/parameter-control.ts";

/** Indexes of data: whole numbers, as bigint up to 2^64 - 1. */
export type IndexList = BigUint64Array | readonly (number | bigint)[];

/** How a query failed. */
type Failure = { readonly thrown: unknown };

const NO_FAILURE = Promise.resolve(undefined);

export class DataStore {
  readonly #session: Session;
  /** The open ones, and those that failed. */
  readonly #queries = new Map<number, Promise<Failure | undefined>>();
  #next = 1;

  constructor(session: Session) {
    this.#session = session;
  }

  /** Throws VALUE_LENGTH or BAD_ARGUMENT before anything is sent. Returns the number of the query. */
  push(indexes: IndexList, values: Float32Array, lengths: ArrayLike<number>, options: CallOptions): number {
    checkWaitOptions(options, CALL_NAMES, "the options of a call");
    const starts = startsOf(indexes, values, lengths);
    const share = (positions: readonly number[]) => {
      const own = new Float32Array(positions.reduce((count, i) => count + (lengths[i] as number), 0));
      let at = 0;
      for (const i of positions) {
        const part = values.subarray(starts[i] as number, starts[i + 1] as number);
        own.set(part, at);
        at += part.length;
      }
      const ownLengths = Uint32Array.from(positions, (i) => lengths[i] as number);
      return { request: { indexes: pick(indexes, positions), lengths: ownLengths, values: own } };
    };
    return this.#begin(this.#session.callOwners(dataPush, keysOf(indexes), share, { ...options, scope: DATA_SCOPE }));
  }

  /** As `push`. `into` is filled when the query has ended. */
  pull(indexes: IndexList, into: Float32Array, lengths: ArrayLike<number>, options: CallOptions): number {
    checkWaitOptions(options, CALL_NAMES, "the options of a call");
    const starts = startsOf(indexes, into, lengths);
    let problem: WeighbridgeError | undefined; // a call's `answered` must not throw
    const share = (positions: readonly number[]) => ({
      request: { indexes: pick(indexes, positions) },
      answered: (found: { readonly lengths: Uint32Array; readonly values: Float32Array }): void => {
        const wrong = positions.findIndex((i, k) => found.lengths[k] !== lengths[i]);
        if (wrong < 0) {
          fill(into, starts, positions, found.values);
          return;
        }
        const i = positions[wrong] as number;
        problem ??= new WeighbridgeError("VALUE_LENGTH", `data ${indexes[i]} has ${found.lengths[wrong]} values, not ${lengths[i]}`);
      },
    });
    const pulled = this.#session.callOwners(dataPull, keysOf(indexes), share, { ...options, scope: DATA_SCOPE });
    return this.#begin(
      pulled.then(() => {
        if (problem !== undefined) throw problem;
      }),
    );
  }

  /** Throws BAD_ARGUMENT for an unknown query. Reports a failure once. */
  async wait(query: number, wait: WaitOptions): Promise<void> {
    checkWaitOptions(wait);
    if (!(Number.isInteger(query) && query >= 1 && query < this.#next)) {
      throw badArgument(`there is no query ${showValue(query)} of data`);
    }
    const failure = await this.#session.wait(this.#queries.get(query) ?? NO_FAILURE, `query ${query} of data`, wait);
    this.#queries.delete(query);
    if (failure !== undefined) throw failure.thrown;
  }

  #begin(calls: Promise<void>): number {
    const query = this.#next++;
    const done = calls.then(
      () => void this.#queries.delete(query),
      (thrown: unknown) => ({ thrown }), // kept until a caller waits
    );
    this.#queries.set(query, done);
    return query;
  }
}

/** Copies arrays, which arrived one after the other, to their starts in `into`. */
function fill(into: Float32Array, starts: Float64Array, positions: readonly number[], values: Float32Array): void {
  let at = 0;
  for (const i of positions) {
    const length = (starts[i + 1] as number) - (starts[i] as number);
    into.set(values.subarray(at, at + length), starts[i] as number);
    at += length;
  }
}

function keysOf(indexes: IndexList): BigUint64Array {
  return indexes instanceof BigUint64Array ? indexes : BigUint64Array.from(indexes, BigInt);
}

function pick(indexes: IndexList, positions: readonly number[]): BigUint64Array {
  return BigUint64Array.from(positions, (i) => BigInt(indexes[i] as number | bigint));
}

/** Where each array begins in `values`, and at the end where they all end. */
function startsOf(indexes: IndexList, values: Float32Array, lengths: ArrayLike<number>): Float64Array {
  if (!(values instanceof Float32Array)) throw badArgument("the values of data must be a Float32Array");
  listLength(indexes, "data");
  if (!Array.isArray(lengths) && !ArrayBuffer.isView(lengths))
    throw badArgument(`the lengths of data are a list of whole numbers, not ${showValue(lengths)}`);
  const starts = new Float64Array(lengths.length + 1);
  for (let i = 0; i < lengths.length; i++) {
    const length = lengths[i] as number;
    if (!(Number.isSafeInteger(length) && length >= 0))
      throw badArgument(`the length of data must be a whole number from 0 up, got ${showValue(length)}`);
    starts[i + 1] = (starts[i] as number) + length;
  }
  const total = starts[lengths.length];
  if (indexes.length !== lengths.length || total !== values.length) {
    const text = `${indexes.length} indexes, ${lengths.length} lengths of ${total} together, ${values.length} values`;
    throw new WeighbridgeError("VALUE_LENGTH", text);
  }
  for (const index of indexes) {
    if (typeof index === "bigint" ? BigInt.asUintN(64, index) === index : Number.isSafeInteger(index) && index >= 0) continue;
    throw badArgument(`indexes of data are whole numbers from 0 to 2^64 - 1, not ${showValue(index)}`);
  }
  return starts;
}
