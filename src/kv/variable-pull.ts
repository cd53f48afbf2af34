// variable-pull — puts the answers to a pull of unknown lengths in order: each server's values and lens into the caller's arrays.

import { WeighbridgeError } from "../base/errors.ts";
import { LEN_BYTES, type Values } from "../wire/kv-message.ts";
import type { Landing } from "../worker/kv-request.ts";

/**
 * Fills `lens`, asks `room` for an array for all values together, fills that from its beginning, and returns it.
 * Throws BAD_REQUEST when an answer's lens do not fit its values.
 */
export function fillFromLandings<V extends Values>(landings: readonly Landing[], lens: Int32Array, room: (valueCount: number) => V): V {
  const ordered = [...landings].sort((a, b) => a.keyFrom - b.keyFrom);
  let valueCount = 0;
  for (const { keyFrom, keyTo, bytes } of ordered) {
    const lensBytes = (keyTo - keyFrom) * LEN_BYTES;
    if (bytes.length < lensBytes)
      throw new WeighbridgeError("BAD_REQUEST", `an answer of ${bytes.length} bytes for ${keyTo - keyFrom} keys`);
    const theirs = new DataView(bytes.buffer, bytes.byteOffset + bytes.length - lensBytes, lensBytes);
    for (let key = keyFrom; key < keyTo; key++) {
      const length = theirs.getInt32((key - keyFrom) * LEN_BYTES, true);
      lens[key] = length;
      valueCount += length;
    }
  }
  const vals = room(valueCount);
  const target = new Uint8Array(vals.buffer, vals.byteOffset, valueCount * vals.BYTES_PER_ELEMENT);
  let at = 0;
  for (const { keyFrom, keyTo, bytes } of ordered) {
    const valueBytes = bytes.length - (keyTo - keyFrom) * LEN_BYTES;
    if (at + valueBytes > target.length) throw new WeighbridgeError("BAD_REQUEST", "an answer has more values than its lens say");
    target.set(bytes.subarray(0, valueBytes), at);
    at += valueBytes;
  }
  return vals;
}
