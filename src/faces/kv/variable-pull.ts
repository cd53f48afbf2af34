// variable-pull — puts the answers to a pull of unknown lengths in order: each server's values and lens into the caller's arrays.

import { WeighbridgeError } from "../../base/errors.ts";
import { LEN_BYTES, type Values } from "../../wire/kv-message.ts";
import type { Landing } from "../../worker/kv-landing.ts";

/**
 * Fills `lens`, asks `room` for an array for all values together, fills that from its beginning, and returns it.
 * Throws BAD_REQUEST when an answer's lens do not fit its values.
 */
export function fillFromLandings<V extends Values>(landings: readonly Landing[], lens: Int32Array, room: (valueCount: number) => V): V {
  const ordered = [...landings].sort((a, b) => a.keyFrom - b.keyFrom);
  const valueCounts = ordered.map((landing) => readLens(landing, lens));
  const vals = room(valueCounts.reduce((sum, count) => sum + count, 0));
  const target = new Uint8Array(vals.buffer, vals.byteOffset, vals.byteLength);
  let at = 0;
  for (const [i, { keyFrom, keyTo, bytes }] of ordered.entries()) {
    const valueBytes = bytes.length - (keyTo - keyFrom) * LEN_BYTES;
    const expectedBytes = (valueCounts[i] as number) * vals.BYTES_PER_ELEMENT;
    if (valueBytes !== expectedBytes)
      throw new WeighbridgeError("BAD_REQUEST", `an answer of ${valueBytes} bytes of values whose lens make ${expectedBytes}`);
    target.set(bytes.subarray(0, valueBytes), at);
    at += valueBytes;
  }
  return vals;
}

/** Copies the lens of one answer, and returns their sum. */
function readLens({ keyFrom, keyTo, bytes }: Landing, lens: Int32Array): number {
  const lensBytes = (keyTo - keyFrom) * LEN_BYTES;
  if (bytes.length < lensBytes) throw new WeighbridgeError("BAD_REQUEST", `an answer of ${bytes.length} bytes for ${keyTo - keyFrom} keys`);
  const theirs = new DataView(bytes.buffer, bytes.byteOffset + bytes.length - lensBytes, lensBytes);
  let sum = 0;
  for (let key = keyFrom; key < keyTo; key++) {
    const length = theirs.getInt32((key - keyFrom) * LEN_BYTES, true);
    if (length < 0) throw new WeighbridgeError("BAD_REQUEST", `an answer says that a key has ${length} values`);
    lens[key] = length;
    sum += length;
  }
  return sum;
}
