// beside-parameters — serves what is about no parameter (contracts/beside-parameters.ts): arrays of any length by
// index, and groups of workers that keep pace, or look for partners. The arrays are sums, like those of the kv face
// (parameters/server-sums.ts). An index is a key like those of tables: its array moves with its part.
//
// Invariants:
//   DataHandlers.A1. A push that is refused has changed nothing. An index that it names twice gets both arrays.

import { Deferred } from "../../base/deferred.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import { dataPull, dataPush, partialReducePartners, sspSync } from "../../contracts/beside-parameters.ts";
import { ElementType, FLOAT_BYTES, KEY_BYTES } from "../../kernel/elements.ts";
import type { SumStore } from "../../store/sums/sum-store.ts";
import type { Ownership } from "../ownership.ts";
import { keepBytes } from "../parameters/call-memory.ts";
import type { Parameters } from "../parameters/parameters.ts";
import { type ServedFunction, serve } from "../server-context.ts";

/** Arrays one behind the other: how long each is, and all their values. */
type Arrays = { readonly indexes: BigUint64Array; readonly lengths: Uint32Array; readonly values: Float32Array };

export const DATA_HANDLERS: readonly ServedFunction[] = [
  serve(dataPush, {
    handler: ({ parameters, ownership }, push) => {
      const { indexes, lengths, values } = ascending(push);
      const { addresses, release } = keepBytes(parameters.host.arena, [indexes, lengths, values]);
      const [keys = 0, lens = 0, at = 0] = addresses;
      try {
        ownership.checkKeys(keysAt(parameters, keys, indexes.length));
        sumsOf(parameters).pushVariable({
          keys,
          lens,
          keyCount: indexes.length,
          values: at,
          valueCount: values.length,
          makesEmpty: true,
        });
      } finally {
        release();
      }
      return {};
    },
  }),
  serve(dataPull, { handler: ({ parameters, ownership }, { indexes }) => pull(parameters, ownership, indexes) }),
];

/** Throws QUEUE_FULL while the server is being restored. */
function sumsOf({ sums }: Parameters): SumStore {
  const store = sums.of("data");
  store.use(ElementType.F32);
  return store;
}

function keysAt({ host }: Parameters, address: number, keyCount: number): BigUint64Array {
  return new BigUint64Array(host.arena.memory.buffer, address, keyCount);
}

/** Throws WRONG_OWNER; OUT_OF_RANGE for an index that nobody has pushed. */
function pull(
  parameters: Parameters,
  ownership: Ownership,
  indexes: BigUint64Array,
): { readonly lengths: Uint32Array; readonly values: Float32Array } {
  const { arena } = parameters.host;
  const store = sumsOf(parameters);
  const { addresses, release } = keepBytes(arena, [indexes, new Uint32Array(indexes.length)]);
  const [keys = 0, lens = 0] = addresses;
  try {
    ownership.checkKeys(keysAt(parameters, keys, indexes.length));
    const lengths = Uint32Array.from(indexes, (index, i) => {
      const width = store.widthOf(keys + i * KEY_BYTES);
      if (width === undefined) throw new WeighbridgeError("OUT_OF_RANGE", `nobody has pushed data under index ${index}`);
      return width;
    });
    arena.words.set(lengths, lens >>> 2);
    const byteCount = Math.max(1, FLOAT_BYTES * lengths.reduce((sum, length) => sum + length, 0));
    const out = arena.allocate(byteCount);
    try {
      const count = store.pullVariable({ keys, keyCount: indexes.length, lens, out });
      return { lengths, values: arena.floats.slice(out >>> 2, (out >>> 2) + count) as Float32Array };
    } finally {
      arena.release(out, byteCount);
    }
  } finally {
    release();
  }
}

/** The same push, by rising indexes, each of them once (DataHandlers.A1). Throws VALUE_LENGTH. */
function ascending({ indexes, lengths, values }: Arrays): Arrays {
  const starts = new Float64Array(lengths.length + 1);
  for (const [i, length] of lengths.entries()) starts[i + 1] = (starts[i] as number) + length;
  const total = starts[lengths.length];
  if (indexes.length !== lengths.length || total !== values.length) {
    const what = `${indexes.length} indexes, ${lengths.length} lengths of ${total} together, ${values.length} values`;
    throw new WeighbridgeError("VALUE_LENGTH", what);
  }
  if (indexes.every((index, i) => i === 0 || index > (indexes[i - 1] as bigint))) return { indexes, lengths, values };
  const order = [...indexes.keys()].sort((a, b) =>
    indexes[a] === indexes[b] ? a - b : (indexes[a] as bigint) < (indexes[b] as bigint) ? -1 : 1,
  );
  const sorted = {
    indexes: new BigUint64Array(order.length),
    lengths: new Uint32Array(order.length),
    values: new Float32Array(values.length),
  };
  let [count, at] = [0, 0];
  for (const i of order) {
    const [index, length] = [indexes[i] as bigint, lengths[i] as number];
    const part = values.subarray(starts[i], (starts[i] as number) + length);
    if (count > 0 && sorted.indexes[count - 1] === index) {
      if (sorted.lengths[count - 1] !== length)
        throw new WeighbridgeError(
          "VALUE_LENGTH",
          `${sorted.lengths[count - 1]} and ${length} values were pushed to index ${index} at once`,
        );
      for (let j = 0; j < length; j++) sorted.values[at - length + j]! += part[j] as number;
      continue;
    }
    sorted.indexes[count] = index;
    sorted.lengths[count++] = length;
    sorted.values.set(part, at);
    at += length;
  }
  return { indexes: sorted.indexes.subarray(0, count), lengths: sorted.lengths.subarray(0, count), values: sorted.values.subarray(0, at) };
}

/** Longer than any worker should take for a clock; a caller's own deadline is shorter. */
const WAIT_MS_MAX = 600_000;

export const GROUP_HANDLERS: readonly ServedFunction[] = [
  serve(sspSync, {
    handler: ({ groups, holder }, { group, size, tolerance, version }) => {
      if (size > 0) return { version: groups.ssp.init({ ...holder, group, size, tolerance }) };
      const passed = new Deferred<void>();
      const waiter = { admitted: () => passed.resolve(), failed: passed.reject.bind(passed) };
      const waitId = groups.ssp.sync({ ...holder, group, version, timeoutMs: WAIT_MS_MAX, waiter });
      return waitId === undefined ? { version } : passed.promise.then(() => ({ version }));
    },
  }),
  serve(partialReducePartners, {
    handler: ({ groups, holder }, { group, want, patienceMs }) => {
      const formed = new Deferred<readonly number[]>();
      const waiter = { formed: (ranks: readonly number[]) => formed.resolve(ranks), failed: formed.reject.bind(formed) };
      const ranks = groups.partialReduce.join({ ...holder, key: group, want, patienceMs, waiter });
      const answer = (members: readonly number[]): { ranks: Uint32Array } => ({ ranks: Uint32Array.from(members) });
      return ranks === undefined ? formed.promise.then(answer) : answer(ranks);
    },
  }),
];
