// kv-landing — the values of answers to kv calls: read from where they came, or, of a length that the caller did not
// know, put in the order of their keys when all have come. Not how their frames come together: peer/answer-landing.ts.

import { bytesOf } from "../base/bytes.ts";
import { asError, badRequest, WeighbridgeError } from "../base/errors.ts";
import { LEN_BYTES, type Values } from "../wire/kv-message.ts";
import { CallerArray } from "./caller-array.ts";

/** A variable-length answer for these keys, as it landed: values, then lens. */
export type Landing = { readonly keyFrom: number; readonly keyTo: number; readonly bytes: Uint8Array };

/**
 * A float view of the buffer answers were last read from: making one per tiny answer would cost more than the answer.
 */
export class FloatWindow {
  #bytes: Uint8Array | undefined;
  #floats: Float32Array = new Float32Array(0);

  over(bytes: Uint8Array): Float32Array {
    if (bytes !== this.#bytes) {
      this.#bytes = bytes;
      this.#floats = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength >> 2);
    }
    return this.#floats;
  }
}

/** What `fill` throws, as the failure of its request. */
export function fillFailure(
  fill: ((landings: readonly Landing[]) => void) | undefined,
  landings: readonly Landing[] = [],
): WeighbridgeError | undefined {
  try {
    fill?.(landings);
    return undefined;
  } catch (thrown) {
    return asError(thrown, "BAD_REQUEST");
  }
}

/**
 * Fills the caller's arrays. Throws VALUE_LENGTH if `vals` is too short, BUFFER_DETACHED if one was transferred away
 * meanwhile.
 */
export function fillCallerArrays(vals: Values, lens: Int32Array): (landings: readonly Landing[]) => void {
  const callerArrays = [new CallerArray(vals), new CallerArray(lens)];
  return (landings) => {
    for (const array of callerArrays) array.check("a pull", false);
    fillFromLandings(landings, lens, (count) => {
      if (count > vals.length) throw new WeighbridgeError("VALUE_LENGTH", `${count} values came, but there is room for ${vals.length}`);
      return vals;
    });
  };
}

/**
 * Puts all answers to a pull of unknown lengths in the order of their keys: fills `lens`, asks `room` for an array for
 * all values together, and fills that from its start. Throws BAD_REQUEST when an answer's lens do not fit its values.
 */
export function fillFromLandings<V extends Values>(landings: readonly Landing[], lens: Int32Array, room: (valueCount: number) => V): V {
  const ordered = [...landings].sort((a, b) => a.keyFrom - b.keyFrom);
  const valueCounts = ordered.map((landing) => readLens(landing, lens));
  const vals = room(valueCounts.reduce((sum, count) => sum + count, 0));
  const target = bytesOf(vals);
  let at = 0;
  for (const [i, { keyFrom, keyTo, bytes }] of ordered.entries()) {
    const valueBytes = bytes.length - (keyTo - keyFrom) * LEN_BYTES;
    const expectedBytes = (valueCounts[i] as number) * vals.BYTES_PER_ELEMENT;
    if (valueBytes !== expectedBytes) throw badRequest(`an answer of ${valueBytes} bytes of values whose lens make ${expectedBytes}`);
    target.set(bytes.subarray(0, valueBytes), at);
    at += valueBytes;
  }
  return vals;
}

/** Copies the lens of one answer, and returns their sum. */
function readLens({ keyFrom, keyTo, bytes }: Landing, lens: Int32Array): number {
  const lensBytes = (keyTo - keyFrom) * LEN_BYTES;
  if (bytes.length < lensBytes) throw badRequest(`an answer of ${bytes.length} bytes for ${keyTo - keyFrom} keys`);
  const theirs = new DataView(bytes.buffer, bytes.byteOffset + bytes.length - lensBytes, lensBytes);
  let sum = 0;
  for (let key = keyFrom; key < keyTo; key++) {
    const length = theirs.getInt32((key - keyFrom) * LEN_BYTES, true);
    if (length < 0) throw badRequest(`an answer says that a key has ${length} values`);
    lens[key] = length;
    sum += length;
  }
  return sum;
}
