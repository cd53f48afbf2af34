// packed-body — a value made of objects, lists, maps and typed arrays as the body of an entry of the log: JSON, padded
// to a multiple of 8, and behind it the bytes of the arrays, each padded the same way. Not a format of files or of
// other languages: a head and its standby run the same version.

import { WeighbridgeError } from "../../base/errors.ts";
import { paddedBytes } from "../../wire/frame.ts";

const ARRAYS = { Uint8Array, Uint32Array, Float32Array, BigUint64Array } as const;
type ArrayName = keyof typeof ARRAYS;
const PREFIX_BYTES = 8;

/** What stands for a typed array, a map and a number that JSON lacks. */
type ArrayMark = { readonly $array: readonly [name: ArrayName, at: number, length: number] };
type MapMark = { readonly $map: readonly (readonly [unknown, unknown])[] };
type NumberMark = { readonly $number: string };

export type PackedBody = { readonly text: Uint8Array; readonly arrays: readonly Uint8Array[]; readonly byteCount: number };

/** The arrays stay where they are: they must not change before the body was written. */
export function pack(value: unknown): PackedBody {
  const arrays: Uint8Array[] = [];
  let arrayBytes = 0;
  const mark = (_: string, found: unknown): unknown => {
    if (found instanceof Map) return { $map: [...found] } satisfies MapMark;
    if (typeof found === "number" && !Number.isFinite(found)) return { $number: String(found) } satisfies NumberMark;
    if (!ArrayBuffer.isView(found)) return found;
    const { buffer, byteOffset, byteLength } = found;
    const at = arrayBytes;
    arrays.push(new Uint8Array(buffer, byteOffset, byteLength));
    arrayBytes += paddedBytes(byteLength);
    return { $array: [found.constructor.name as ArrayName, at, (found as Uint8Array).length] } satisfies ArrayMark;
  };
  const text = new TextEncoder().encode(JSON.stringify(value, mark));
  return { text, arrays, byteCount: paddedBytes(text.length) + arrayBytes };
}

/** The body alone, in memory of its own: its number of bytes of JSON, and 4 unused bytes, stand before it. */
export function packedBytes(value: unknown): Uint8Array<ArrayBuffer> {
  const packed = pack(value);
  const bytes = new Uint8Array(PREFIX_BYTES + packed.byteCount);
  new DataView(bytes.buffer).setUint32(0, packed.text.length, true);
  writePacked(packed, bytes, PREFIX_BYTES);
  return bytes;
}

/** The value of `packedBytes`; its arrays lie there. Throws BAD_REQUEST. */
export function unpackBytes(bytes: Uint8Array): unknown {
  const bodyBytes = bytes.length - PREFIX_BYTES;
  const textBytes = bodyBytes < 0 ? 0 : new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  if (bodyBytes < paddedBytes(textBytes)) throw new WeighbridgeError("BAD_REQUEST", `${bytes.length} bytes are no packed body`);
  return unpack(bytes, { at: PREFIX_BYTES, textBytes, bodyBytes, isKept: true });
}

/** Writes the body from `at` on. */
export function writePacked({ text, arrays }: PackedBody, bytes: Uint8Array, at: number): void {
  bytes.set(text, at);
  let to = at + paddedBytes(text.length);
  for (const array of arrays) {
    bytes.set(array, to);
    to += paddedBytes(array.length);
  }
}

/** Where a body lies. `isKept`: its bytes do not change any more. */
type BodyLocation = { readonly at: number; readonly textBytes: number; readonly bodyBytes: number; readonly isKept?: boolean };

/** The value of a body. Its arrays are copies, or lie in the body if that is kept. Throws BAD_REQUEST. */
export function unpack(bytes: Uint8Array, { at, textBytes, bodyBytes, isKept = false }: BodyLocation): unknown {
  const arraysAt = at + paddedBytes(textBytes);
  const end = at + bodyBytes;
  const arrayOf = ([name, from, length]: ArrayMark["$array"]): unknown => {
    const make = ARRAYS[name];
    const first = arraysAt + from;
    const last = first + length * (make?.BYTES_PER_ELEMENT ?? Infinity);
    if (!(first >= arraysAt && last <= end))
      throw new WeighbridgeError("BAD_REQUEST", `an array of ${length} ${name} lies outside its entry`);
    const offset = bytes.byteOffset + first;
    if (isKept && offset % make.BYTES_PER_ELEMENT === 0) return new make(bytes.buffer as ArrayBuffer, offset, length);
    return new make(bytes.slice(first, last).buffer);
  };
  const read = (_: string, found: unknown): unknown => {
    if (typeof found !== "object" || found === null) return found;
    if ("$array" in found) return arrayOf((found as ArrayMark).$array);
    if ("$map" in found) return new Map((found as MapMark).$map);
    return "$number" in found ? Number((found as NumberMark).$number) : found;
  };
  return JSON.parse(new TextDecoder().decode(bytes.slice(at, at + textBytes)), read);
}
