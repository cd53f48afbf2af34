// safetensors — the header of a safetensors file: entries to bytes and back. It knows no files and no meaning of
// tensors.
//
//   offset   type       field
//        0   u64        headerBytes    n, little-endian, at most HEADER_BYTES_MAX
//        8   utf-8 × n  header         {"name": {"dtype", "shape", "data_offsets": [from, to]}, …, "__metadata__": {…}}
//    8 + n              data           the tensors, one behind the other
//
// Invariants, of what is written and of everything that is accepted:
//   Safetensors.H1. The entries cover the data up to the end of the file: no gap, no overlap, nothing after it.
//   Safetensors.H2. An entry has exactly the bytes of its shape and dtype.
//   Safetensors.H3. No name occurs twice.
// What is written is also padded with spaces, so that the data begins at a multiple of 8.

import { assert } from "../../base/assert.ts";
import { reasonOf, type WeighbridgeError } from "../../base/errors.ts";
import { duplicateKey } from "./duplicate-key.ts";
import { torn } from "./snapshot-files.ts";

export const LENGTH_BYTES = 8;
/** What the Python library takes. */
export const HEADER_BYTES_MAX = 100_000_000;
const ALIGNMENT = 8;
const SPACE = 0x20;
const METADATA = "__metadata__";

/** Bytes of one element. Dtypes of less than a byte are not read. */
export const DTYPE_BYTES = {
  BOOL: 1,
  U8: 1,
  I8: 1,
  F8_E5M2: 1,
  F8_E4M3: 1,
  U16: 2,
  I16: 2,
  F16: 2,
  BF16: 2,
  U32: 4,
  I32: 4,
  F32: 4,
  U64: 8,
  I64: 8,
  F64: 8,
} as const;
type Dtype = keyof typeof DTYPE_BYTES;

export type NamedShape = { readonly name: string; readonly dtype: Dtype; readonly shape: readonly number[] };

export type TensorEntry = NamedShape & {
  /** Where its bytes begin, from the beginning of the data. */
  readonly dataFrom: number;
  readonly dataTo: number;
};

export type SafetensorsHeader = {
  /** In the order of their data. */
  readonly entries: readonly TensorEntry[];
  readonly metadata: Readonly<Record<string, string>>;
  /** Where the data begins in the file. */
  readonly dataStart: number;
};

export type HeaderSource = {
  /** For messages. */
  readonly file: string;
  /** The whole file's length. */
  readonly fileBytes: number;
};

function isDtype(value: unknown): value is Dtype {
  return typeof value === "string" && Object.hasOwn(DTYPE_BYTES, value);
}

/** Undefined when there are more elements than a number can count exactly. */
export function elementCount(shape: readonly number[]): number | undefined {
  let product = 1;
  for (const extent of shape) product *= extent;
  return Number.isSafeInteger(product) ? product : undefined;
}

export function tensorBytes({ name, dtype, shape }: NamedShape): number {
  const bytes = (elementCount(shape) ?? Number.NaN) * DTYPE_BYTES[dtype];
  assert(Number.isSafeInteger(bytes), `${name} of shape [${shape.join(", ")}] has more bytes than a number can count`);
  return bytes;
}

/** The entries for tensors that lie one behind the other in this order. */
export function layOutTensors(tensors: readonly NamedShape[]): TensorEntry[] {
  let dataTo = 0;
  return tensors.map((tensor) => {
    const dataFrom = dataTo;
    dataTo += tensorBytes(tensor);
    return { ...tensor, dataFrom, dataTo };
  });
}

/** One entry as it stands in a header. */
export function entryJson({ name, dtype, shape, dataFrom, dataTo }: TensorEntry): string {
  return `${JSON.stringify(name)}:{"dtype":"${dtype}","shape":[${shape.join(",")}],"data_offsets":[${dataFrom},${dataTo}]}`;
}

type EncodeOptions = {
  readonly metadata?: Readonly<Record<string, string>>;
  /** Pads with spaces to so many bytes, the length field included: those reserved for the header. A multiple of 8. */
  readonly reservedBytes?: number;
};

/** The file's bytes in front of the data. */
export function encodeHeader(
  entries: readonly TensorEntry[],
  { metadata = {}, reservedBytes }: EncodeOptions = {},
): Uint8Array<ArrayBuffer> {
  const about = Object.keys(metadata).length === 0 ? [] : [`"${METADATA}":${JSON.stringify(metadata)}`];
  const json = new TextEncoder().encode(`{${[...about, ...entries.map(entryJson)].join(",")}}`);
  const bytesMin = Math.ceil((LENGTH_BYTES + json.byteLength) / ALIGNMENT) * ALIGNMENT;
  const bytes = reservedBytes ?? bytesMin;
  assert(bytes >= bytesMin && bytes % ALIGNMENT === 0, `a header of ${bytesMin} bytes does not fit into ${bytes}`);
  assert(bytes - LENGTH_BYTES <= HEADER_BYTES_MAX, `a header of ${bytes} bytes is longer than readers accept`);
  const header = new Uint8Array(bytes).fill(SPACE);
  new DataView(header.buffer).setBigUint64(0, BigInt(bytes - LENGTH_BYTES), true);
  header.set(json, LENGTH_BYTES);
  return header;
}

/** How long the header is, by the file's first 8 bytes. */
export function decodeHeaderBytes(start: Uint8Array, { file, fileBytes }: HeaderSource): number {
  if (start.byteLength < LENGTH_BYTES || fileBytes < LENGTH_BYTES) {
    throw torn(file, `has ${fileBytes} bytes, too few for the length of a safetensors header`);
  }
  const length = new DataView(start.buffer, start.byteOffset, LENGTH_BYTES).getBigUint64(0, true);
  if (length > HEADER_BYTES_MAX) throw torn(file, `says its header has ${length} bytes; at most ${HEADER_BYTES_MAX} are legal`);
  if (LENGTH_BYTES + Number(length) > fileBytes) {
    throw torn(file, `says its header has ${length} bytes, but the whole file has only ${fileBytes}`);
  }
  return Number(length);
}

/** `header` is what follows the length. */
export function decodeHeader(header: Uint8Array, source: HeaderSource): SafetensorsHeader {
  const fields = parseFields(header, source.file);
  const dataStart = LENGTH_BYTES + header.byteLength;
  const entries: TensorEntry[] = [];
  let metadata: Readonly<Record<string, string>> = {};
  for (const [name, value] of Object.entries(fields)) {
    if (name === METADATA) metadata = metadataOf(value, source.file);
    else entries.push(entryOf(name, value, source.file));
  }
  entries.sort((one, other) => one.dataFrom - other.dataFrom || one.dataTo - other.dataTo);
  let end = 0;
  for (const { name, dataFrom, dataTo } of entries) {
    if (dataFrom !== end) {
      const what = dataFrom < end ? "overlaps the tensor before it, which ends" : "leaves a gap: the tensor before it ends";
      throw torn(source.file, `has ${quote(name)} from byte ${dataFrom} of its data, which ${what} at ${end}`);
    }
    end = dataTo;
  }
  if (dataStart + end !== source.fileBytes) {
    throw torn(source.file, `has ${source.fileBytes} bytes, but its header speaks of ${dataStart + end}`);
  }
  return { entries, metadata, dataStart };
}

function parseFields(header: Uint8Array, file: string): Readonly<Record<string, unknown>> {
  let json: string;
  let value: unknown;
  try {
    json = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(header);
    value = JSON.parse(json);
  } catch (cause) {
    throw torn(file, `has a header that is not JSON: ${reasonOf(cause)}`, cause);
  }
  if (!isRecord(value)) throw torn(file, "has a header that is JSON, but not an object");
  const twice = duplicateKey(json);
  if (twice !== undefined) throw torn(file, `has ${quote(twice)} twice in its header`);
  return value;
}

function metadataOf(value: unknown, file: string): Readonly<Record<string, string>> {
  if (!isRecord(value)) throw torn(file, `has a ${METADATA} that is not an object`);
  for (const [name, text] of Object.entries(value)) {
    if (typeof text !== "string") throw torn(file, `has a ${METADATA} whose ${quote(name)} is not a string`);
  }
  return value as Readonly<Record<string, string>>;
}

function entryOf(name: string, value: unknown, file: string): TensorEntry {
  const wrong = (what: string): WeighbridgeError => torn(file, `has ${quote(name)} in its header ${what}`);
  if (!isRecord(value)) throw wrong("without dtype, shape and data_offsets");
  const { dtype, shape, data_offsets: offsets } = value;
  if (!isDtype(dtype)) throw wrong(`with a dtype that is unknown here: ${shown(dtype)}`);
  if (!isCounts(shape)) throw wrong("with a shape that is not a list of whole numbers");
  if (!isCounts(offsets) || offsets.length !== 2) throw wrong("with data_offsets that are not two whole numbers");
  const [dataFrom = 0, dataTo = 0] = offsets;
  const elements = elementCount(shape);
  if (elements === undefined || elements * DTYPE_BYTES[dtype] !== dataTo - dataFrom) {
    throw wrong(`as ${dtype} of shape [${shape.join(", ")}], which is not the ${dataTo - dataFrom} bytes from ${dataFrom} to ${dataTo}`);
  }
  return { name, dtype, shape, dataFrom, dataTo };
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isCounts(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((item) => Number.isSafeInteger(item) && item >= 0);
}

const SHOWN_LENGTH_MAX = 80;

function shown(value: unknown): string {
  return typeof value === "string" ? quote(value) : typeof value;
}

function quote(text: string): string {
  return JSON.stringify(text.length > SHOWN_LENGTH_MAX ? `${text.slice(0, SHOWN_LENGTH_MAX)}…` : text);
}
