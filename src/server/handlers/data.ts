// data — serves arrays of any length by index, beside the parameters (contracts/data.ts). No part of checkpoints, as in Hetu.
//
// Invariants:
//   DataArrays.A1. Arrays lie in the server's arena, and are bounded with everything else in it: a push that finds no room is ARENA_FULL.
//   DataArrays.A2. A push that is refused has stored and added nothing.

import { WeighbridgeError } from "../../base/errors.ts";
import { dataPull, dataPush } from "../../contracts/data.ts";
import { type Arena, stateFull } from "../../kernel/arena.ts";
import { type ServedFunction, serve } from "../served-function.ts";
import type { ServerContext } from "../server-context.ts";

const FLOAT_BYTES = 4;

export const DATA_HANDLERS: readonly ServedFunction[] = [
  serve(dataPush, {
    handler: (context, { indexes, lengths, values }) => {
      const arrays = arraysOf(context);
      checkPush(arrays, indexes, lengths, values);
      const fresh = makeRoom(context.arena, arrays, indexes, lengths);
      let from = 0;
      indexes.forEach((index, i) => {
        const part = values.subarray(from, from + (lengths[i] as number));
        const known = arrays.get(index) as Float32Array;
        if (fresh.delete(index)) known.set(part);
        else for (let j = 0; j < part.length; j++) known[j] = (known[j] as number) + (part[j] as number);
        from += part.length;
      });
      return {};
    },
  }),
  serve(dataPull, {
    handler: (context, { indexes }) => {
      const arrays = arraysOf(context);
      const found = Array.from(indexes, (index) => {
        const values = arrays.get(index);
        if (values === undefined) throw new WeighbridgeError("OUT_OF_RANGE", `nobody has pushed data under index ${index}`);
        return values;
      });
      const lengths = Uint32Array.from(found, ({ length }) => length);
      const values = new Float32Array(lengths.reduce((sum, length) => sum + length, 0));
      let at = 0;
      for (const part of found) {
        values.set(part, at);
        at += part.length;
      }
      return { lengths, values };
    },
  }),
];

function arraysOf(context: ServerContext): Map<bigint, Float32Array> {
  return context.own("wb/data", () => new Map<bigint, Float32Array>());
}

/** Room for every index that is new, or for none (A1, A2). Returns those. */
function makeRoom(arena: Arena, arrays: Map<bigint, Float32Array>, indexes: BigUint64Array, lengths: Uint32Array): Set<bigint> {
  const made = new Set<bigint>();
  for (const [i, index] of indexes.entries()) {
    if (arrays.has(index)) continue;
    const length = lengths[i] as number;
    const address = arena.tryAllocateState(bytesFor(length));
    if (address === 0) {
      const error = stateFull(arena, `the ${length} floats of data ${index}`);
      for (const undone of made) {
        const { byteOffset, length: floats } = arrays.get(undone) as Float32Array;
        arrays.delete(undone);
        arena.release(byteOffset, bytesFor(floats));
      }
      throw error;
    }
    arrays.set(index, arena.floats.subarray(address >>> 2, (address >>> 2) + length) as Float32Array);
    made.add(index);
  }
  return made;
}

/** An array of no floats takes room as well: there may be as many as one likes. */
function bytesFor(length: number): number {
  return Math.max(1, length) * FLOAT_BYTES;
}

/** Everything is checked before anything is stored. */
function checkPush(arrays: ReadonlyMap<bigint, Float32Array>, indexes: BigUint64Array, lengths: Uint32Array, values: Float32Array): void {
  const total = lengths.reduce((sum, length) => sum + length, 0);
  if (indexes.length !== lengths.length || total !== values.length) {
    throw new WeighbridgeError(
      "VALUE_LENGTH",
      `${indexes.length} indexes, ${lengths.length} lengths of ${total} together, ${values.length} values`,
    );
  }
  const named = new Map<bigint, number>(); // an index that is new may be named twice
  indexes.forEach((index, i) => {
    const length = lengths[i] as number;
    const known = arrays.get(index)?.length ?? named.get(index) ?? length;
    named.set(index, length);
    if (known === length) return;
    throw new WeighbridgeError("VALUE_LENGTH", `index ${index} has ${known} values; ${length} were pushed to it`);
  });
}
