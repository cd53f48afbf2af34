// row-messages — the messages between workers with cached rows, and their bytes. tiered-rows.ts decides when they are
// sent.
//
//   all         u32 kind │ u32 × 3, by kind │ the rest                                  little-endian, 4-byte aligned
//   ASK         1 if the sender knows its batch, else 0 │ keyCount │ 0
//               │ u64 × keyCount, each once: the rows that the sender requests of the receiver
//   ROWS        0: rows, 1: the sender requested wrong rows, all request again, 2: a failure │ rowCount or bytes │ 0
//               │ f32 × width × rowCount, in the order of the request, or JSON
//   GRADIENTS   the sender's clock │ rowCount │ f32 scale │ u32: 1 if its batch has gradients for any owner, else 0
//               │ u32 × rowCount: positions in the sender's request │ f32 × width × rowCount
//   DEAL        0: JSON follows, 2: a failure follows │ bytes │ 0 │ JSON

import { badRequest, WeighbridgeError } from "../../base/errors.ts";
import { type ExchangeContract, rowsAsk, rowsDeal, rowsGive, rowsGradients } from "../../contracts/row-exchange.ts";
import { KEY_BYTES, WORD_BYTES } from "../../kernel/elements.ts";
import { type Check, encodeJson, object, text } from "../../wire/json-body.ts";
import type { BatchRows } from "./row-request.ts";

const MESSAGES: readonly ExchangeContract[] = [rowsAsk, rowsGive, rowsGradients, rowsDeal];

const HEADER_BYTES = 16;

const ROWS_FOLLOW = 0;
const REQUEST_AGAIN = 1;
const FAILED = 2;

export type KeyRequest = { readonly isKnown: boolean; readonly keys: Uint32Array };
export type Gradients = {
  readonly clock: number;
  readonly scale: number;
  /** Whether the sender has gradients for any row of any owner: then it counts as one that pushed. */
  readonly isPush: boolean;
  /** Positions of the rows in the sender's request. */
  readonly positions: Uint32Array;
  readonly values: Float32Array;
};

/** `keys`: low and high half of each. They are copied. */
export function encodeKeyRequest({ isKnown, keys }: KeyRequest): Uint8Array {
  const bytes = message(rowsAsk, [isKnown ? 1 : 0, keys.length / 2, 0], keys.byteLength);
  new Uint32Array(bytes.buffer, HEADER_BYTES).set(keys);
  return bytes;
}

/** Throws BAD_REQUEST. */
export function decodeKeyRequest(bytes: Uint8Array): KeyRequest {
  const header = check(bytes, rowsAsk);
  const keyCount = header[2] as number;
  checkLength(bytes, keyCount * KEY_BYTES);
  return { isKnown: header[1] === 1, keys: new Uint32Array(bytes.buffer, bytes.byteOffset + HEADER_BYTES, keyCount * 2) };
}

/** Room for rows, to be filled before it is sent. */
export function rowsMessage(rowCount: number, width: number): { readonly bytes: Uint8Array; readonly rows: Float32Array } {
  const bytes = message(rowsGive, [ROWS_FOLLOW, rowCount, 0], rowCount * width * WORD_BYTES);
  return { bytes, rows: new Float32Array(bytes.buffer, HEADER_BYTES) };
}

export function requestAgainMessage(): Uint8Array {
  return message(rowsGive, [REQUEST_AGAIN, 0, 0], 0);
}

export function failureMessage(error: WeighbridgeError): Uint8Array {
  return failedMessage(rowsGive, error);
}

/** "again" if the sender requested the wrong rows. Throws BAD_REQUEST, and the failure of the sender. */
export function decodeRows(bytes: Uint8Array, width: number): Float32Array | "again" {
  const header = check(bytes, rowsGive);
  if (header[1] === REQUEST_AGAIN) return "again";
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
}): { readonly bytes: Uint8Array; readonly positions: Uint32Array; readonly values: Float32Array } {
  const { clock, scale, isPush, rowCount, width } = options;
  const positionsAt = HEADER_BYTES + WORD_BYTES;
  const valuesAt = positionsAt + rowCount * WORD_BYTES;
  const bytes = message(rowsGradients, [clock, rowCount, 0], (1 + rowCount * (1 + width)) * WORD_BYTES);
  new Float32Array(bytes.buffer)[3] = scale;
  new Uint32Array(bytes.buffer)[HEADER_BYTES / WORD_BYTES] = isPush ? 1 : 0;
  return {
    bytes,
    positions: new Uint32Array(bytes.buffer, positionsAt, rowCount),
    values: new Float32Array(bytes.buffer, valuesAt, rowCount * width),
  };
}

/** Throws BAD_REQUEST. */
export function decodeGradients(bytes: Uint8Array, width: number): Gradients {
  const header = check(bytes, rowsGradients);
  const rowCount = header[2] as number;
  checkLength(bytes, (1 + rowCount * (1 + width)) * WORD_BYTES);
  const isPush = bytes.byteOffset + HEADER_BYTES;
  const positions = isPush + WORD_BYTES;
  return {
    clock: header[1] as number,
    scale: new Float32Array(bytes.buffer, bytes.byteOffset, 4)[3] as number,
    isPush: new Uint32Array(bytes.buffer, isPush, 1)[0] === 1,
    positions: new Uint32Array(bytes.buffer, positions, rowCount),
    values: new Float32Array(bytes.buffer, positions + rowCount * WORD_BYTES, rowCount * width),
  };
}

/** Any object, or the failure of the sender. */
export function assignmentMessage(assignment: object | WeighbridgeError): Uint8Array {
  if (assignment instanceof WeighbridgeError) return failedMessage(rowsDeal, assignment);
  return jsonMessage(rowsDeal, ROWS_FOLLOW, assignment);
}

/** Throws BAD_REQUEST, and the failure of the sender. */
export function decodeAssignment(bytes: Uint8Array): unknown {
  const header = check(bytes, rowsDeal);
  if (header[1] === FAILED) throw failureOf(bytes, header[2] as number);
  return jsonOf(bytes, header[2] as number);
}

function message(contract: ExchangeContract, fields: readonly [number, number, number], restBytes: number): Uint8Array {
  const bytes = new Uint8Array(HEADER_BYTES + restBytes);
  new Uint32Array(bytes.buffer, 0, 4).set([contract.kind, ...fields]);
  return bytes;
}

function failedMessage(contract: ExchangeContract, { code, message: text }: WeighbridgeError): Uint8Array {
  return jsonMessage(contract, FAILED, { code, message: text });
}

function jsonMessage(contract: ExchangeContract, status: number, body: object): Uint8Array {
  const encoded = encodeJson(body);
  const bytes = message(contract, [status, encoded.length, 0], encoded.length);
  bytes.set(encoded, HEADER_BYTES);
  return bytes;
}

function check(bytes: Uint8Array, contract: ExchangeContract): Uint32Array {
  const header = bytes.length < HEADER_BYTES ? new Uint32Array(4) : new Uint32Array(bytes.buffer, bytes.byteOffset, 4);
  if (header[0] === contract.kind) return header;
  const got = MESSAGES.find(({ kind }) => kind === header[0])?.name ?? `${header[0]}`;
  throw badRequest(`workers that share cached rows must acquire and push in the same steps: expected ${contract.name}, got ${got}`);
}

function checkLength(bytes: Uint8Array, restBytes: number): void {
  if (bytes.length === HEADER_BYTES + restBytes) return;
  throw badRequest(`a worker sent ${bytes.length} bytes about rows; ${HEADER_BYTES + restBytes} were expected`);
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
    throw new WeighbridgeError("BAD_REQUEST", "a message about rows has a body that is no JSON", { cause });
  }
}

/**
 * The gradients of a batch, with what an owner needs to apply them as the servers would. A batch without any is sent
 * too: whether it pushes counts for the whole table.
 */
export type OutgoingGradients = {
  /** The rows of the batch that have one. */
  readonly rows: Int32Array;
  /** `width` floats for each of them. */
  readonly gradients: Float32Array;
  readonly width: number;
  readonly clock: number;
  readonly scale: number;
};

/** A message for each member, by position, with the gradients of the rows that it owns. */
export function encodeOutgoing(requested: BatchRows, outgoing: OutgoingGradients): Uint8Array[] {
  const { rows, gradients, width, clock, scale } = outgoing;
  const isPush = rows.length > 0;
  return requested.parts.map(({ from, to }) => {
    let rowCount = 0;
    for (let i = 0; i < rows.length; i++) if ((rows[i] as number) >= from && (rows[i] as number) < to) rowCount++;
    const { bytes, positions, values } = gradientsMessage({ clock, scale, isPush, rowCount, width });
    let at = 0;
    for (let i = 0; i < rows.length; i++) {
      const row = rows[i] as number;
      if (row < from || row >= to) continue;
      positions[at] = row - from;
      for (let j = 0; j < width; j++) values[at * width + j] = gradients[i * width + j] as number;
      at++;
    }
    return bytes;
  });
}

/** The same for a worker that owns all rows. */
export function ownGradients({ rows, gradients, clock, scale }: OutgoingGradients): Gradients {
  return { clock, scale, isPush: rows.length > 0, positions: Uint32Array.from(rows), values: gradients };
}
