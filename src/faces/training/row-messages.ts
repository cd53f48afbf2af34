// row-messages — what workers that cache rows of a table tell each other, and how it lies in bytes. Not who says what when: tiered-rows.ts has that.
//
//   all         u32 kind │ u32 × 3, by kind │ the rest                                                  little-endian, 4-byte aligned
//   ASK         1 if the sender knows what it wants, else 0 │ keyCount │ 0 │ u64 × keyCount, each once: rows that the sender wants of the receiver
//   ROWS        0: rows follow, 1: what I asked for was wrong, let us ask again, 2: a failure follows │ rowCount or bytes │ 0
//               │ f32 × width × rowCount, as asked, or JSON
//   GRADIENTS   the sender's clock │ rowCount │ f32 scale │ u32: 1 if its batch gives gradients for any row, also of
//   other owners, else 0
//               │ u32 × rowCount: places in what the sender asked for │ f32 × width × rowCount
//   DEAL        0: JSON follows, 2: a failure follows │ bytes │ 0 │ JSON

import { WeighbridgeError } from "../../base/errors.ts";
import { type ExchangeContract, rowsAsk, rowsDeal, rowsGive, rowsGradients } from "../../contracts/row-exchange.ts";
import { type Check, object, text } from "../../wire/json-body.ts";

const MESSAGES: readonly ExchangeContract[] = [rowsAsk, rowsGive, rowsGradients, rowsDeal];

const HEADER_BYTES = 16;
const WORD_BYTES = 4;
const KEY_BYTES = 8;

const ROWS_FOLLOW = 0;
const ASK_AGAIN = 1;
const FAILED = 2;

export type Ask = { readonly isKnown: boolean; readonly keys: Uint32Array };
export type Gradients = {
  readonly clock: number;
  readonly scale: number;
  /** Whether the sender gives gradients for any row at all: then it counts as one that pushed. */
  readonly isPush: boolean;
  /** Where the rows stand among those that the sender asked for. */
  readonly places: Uint32Array;
  readonly values: Float32Array;
};

/** `keys`: low and high half of each. They are copied. */
export function encodeAsk({ isKnown, keys }: Ask): Uint8Array {
  const { bytes } = message(rowsAsk, [isKnown ? 1 : 0, keys.length / 2, 0], keys.byteLength);
  new Uint32Array(bytes.buffer, HEADER_BYTES).set(keys);
  return bytes;
}

/** Throws BAD_REQUEST. */
export function decodeAsk(bytes: Uint8Array): Ask {
  const header = check(bytes, rowsAsk);
  const keyCount = header[2] as number;
  checkLength(bytes, keyCount * KEY_BYTES);
  return { isKnown: header[1] === 1, keys: new Uint32Array(bytes.buffer, bytes.byteOffset + HEADER_BYTES, keyCount * 2) };
}

/** Room for rows, to be filled before it is sent. */
export function rowsMessage(rowCount: number, width: number): { readonly bytes: Uint8Array; readonly rows: Float32Array } {
  const { bytes } = message(rowsGive, [ROWS_FOLLOW, rowCount, 0], rowCount * width * WORD_BYTES);
  return { bytes, rows: new Float32Array(bytes.buffer, HEADER_BYTES) };
}

export function askAgainMessage(): Uint8Array {
  return message(rowsGive, [ASK_AGAIN, 0, 0], 0).bytes;
}

export function failureMessage(error: WeighbridgeError): Uint8Array {
  return textMessage(rowsGive, FAILED, JSON.stringify({ code: error.code, message: error.message }));
}

/** "again" when the sender asked for the wrong rows. Throws BAD_REQUEST, and what the sender failed with. */
export function decodeRows(bytes: Uint8Array, width: number): Float32Array | "again" {
  const header = check(bytes, rowsGive);
  if (header[1] === ASK_AGAIN) return "again";
  const count = header[2] as number;
  if (header[1] === FAILED) throw failureOf(bytes, count);
  checkLength(bytes, count * width * WORD_BYTES);
  return new Float32Array(bytes.buffer, bytes.byteOffset + HEADER_BYTES, count * width);
}

/** Room for the gradients of so many rows, to be filled before it is sent. */
export function gradientsMessage(options: {
  readonly clock: number;
  readonly scale: number;
  readonly isPush: boolean;
  readonly rowCount: number;
  readonly width: number;
}): { readonly bytes: Uint8Array; readonly places: Uint32Array; readonly values: Float32Array } {
  const { clock, scale, isPush, rowCount, width } = options;
  const placesAt = HEADER_BYTES + WORD_BYTES;
  const valuesAt = placesAt + rowCount * WORD_BYTES;
  const { bytes } = message(rowsGradients, [clock, rowCount, 0], (1 + rowCount * (1 + width)) * WORD_BYTES);
  new Float32Array(bytes.buffer)[3] = scale;
  new Uint32Array(bytes.buffer)[HEADER_BYTES / WORD_BYTES] = isPush ? 1 : 0;
  return {
    bytes,
    places: new Uint32Array(bytes.buffer, placesAt, rowCount),
    values: new Float32Array(bytes.buffer, valuesAt, rowCount * width),
  };
}

/** Throws BAD_REQUEST. */
export function decodeGradients(bytes: Uint8Array, width: number): Gradients {
  const header = check(bytes, rowsGradients);
  const rowCount = header[2] as number;
  checkLength(bytes, (1 + rowCount * (1 + width)) * WORD_BYTES);
  const isPush = bytes.byteOffset + HEADER_BYTES;
  const places = isPush + WORD_BYTES;
  return {
    clock: header[1] as number,
    scale: new Float32Array(bytes.buffer, bytes.byteOffset, 4)[3] as number,
    isPush: new Uint32Array(bytes.buffer, isPush, 1)[0] === 1,
    places: new Uint32Array(bytes.buffer, places, rowCount),
    values: new Float32Array(bytes.buffer, places + rowCount * WORD_BYTES, rowCount * width),
  };
}

/** Anything in JSON, or what the sender failed with. */
export function dealMessage(deal: object | WeighbridgeError): Uint8Array {
  if (!(deal instanceof WeighbridgeError)) return textMessage(rowsDeal, ROWS_FOLLOW, JSON.stringify(deal));
  return textMessage(rowsDeal, FAILED, JSON.stringify({ code: deal.code, message: deal.message }));
}

/** Throws BAD_REQUEST, and what the sender failed with. */
export function decodeDeal(bytes: Uint8Array): unknown {
  const header = check(bytes, rowsDeal);
  if (header[1] === FAILED) throw failureOf(bytes, header[2] as number);
  return jsonOf(bytes, header[2] as number);
}

function message(contract: ExchangeContract, fields: readonly [number, number, number], restBytes: number): { readonly bytes: Uint8Array } {
  const bytes = new Uint8Array(HEADER_BYTES + restBytes);
  new Uint32Array(bytes.buffer, 0, 4).set([contract.kind, ...fields]);
  return { bytes };
}

function textMessage(contract: ExchangeContract, status: number, json: string): Uint8Array {
  const encoded = new TextEncoder().encode(json);
  const { bytes } = message(contract, [status, encoded.length, 0], encoded.length);
  bytes.set(encoded, HEADER_BYTES);
  return bytes;
}

function check(bytes: Uint8Array, contract: ExchangeContract): Uint32Array {
  const header = bytes.length < HEADER_BYTES ? new Uint32Array(4) : new Uint32Array(bytes.buffer, bytes.byteOffset, 4);
  if (header[0] === contract.kind) return header;
  const got = MESSAGES.find(({ kind }) => kind === header[0])?.name ?? `${header[0]}`;
  throw new WeighbridgeError(
    "BAD_REQUEST",
    `workers that share cached rows must take and give in the same steps: expected ${contract.name}, got ${got}`,
  );
}

function checkLength(bytes: Uint8Array, restBytes: number): void {
  if (bytes.length === HEADER_BYTES + restBytes) return;
  throw new WeighbridgeError("BAD_REQUEST", `a worker sent ${bytes.length} bytes about rows; ${HEADER_BYTES + restBytes} were expected`);
}

const failureShape: Check<{ readonly code: string; readonly message: string }> = object({ code: text, message: text });

function failureOf(bytes: Uint8Array, byteCount: number): WeighbridgeError {
  const failure = failureShape(jsonOf(bytes, byteCount), "a worker's failure");
  return new WeighbridgeError(failure.code as WeighbridgeError["code"], `another worker failed: ${failure.message}`, { retryable: true });
}

function jsonOf(bytes: Uint8Array, byteCount: number): unknown {
  checkLength(bytes, byteCount);
  try {
    return JSON.parse(new TextDecoder().decode(bytes.slice(HEADER_BYTES)));
  } catch (cause) {
    throw new WeighbridgeError("BAD_REQUEST", "what a worker said about rows is no JSON", { cause });
  }
}
