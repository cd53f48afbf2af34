// raw-frame — frames as plain data, legal or not: what hostile tests send and what they got back.

import { encodeHeader, FrameHeader, HEADER_BYTES, Kind, paddedBytes } from "../../src/wire/frame.ts";
import { FunctionId } from "../../src/wire/function-id.ts";
import { encodeJson } from "../../src/wire/json-body.ts";

/** Everything a header says but its kind and length; what is left out is 0. */
export type HeaderFields = Partial<Omit<FrameHeader, "reset" | "toString" | "kind" | "payloadBytes">>;

export type RawFrame = { readonly header: FrameHeader; readonly payload: Uint8Array };

/** Of the placement that a cluster begins with: requests with keys are cut by it, unless they say otherwise. */
const FIRST_EPOCH = 1;
const NOTHING = new Uint8Array(0);

/** A well-formed frame. Mutate the bytes for one that is not. */
export function frameBytes(kind: Kind, fields: HeaderFields = {}, payload: Uint8Array = NOTHING): Uint8Array {
  const bytes = new Uint8Array(HEADER_BYTES + paddedBytes(payload.length));
  const header = Object.assign(new FrameHeader().reset(kind, 0), isKvRequest(kind, fields) ? { epoch: FIRST_EPOCH } : {}, fields);
  header.payloadBytes = payload.length;
  encodeHeader(header, new Uint32Array(bytes.buffer), 0);
  bytes.set(payload, HEADER_BYTES);
  return bytes;
}

function isKvRequest(kind: Kind, { functionId = 0 }: HeaderFields): boolean {
  return kind === Kind.REQUEST && functionId >= FunctionId.KV_PUSH && functionId <= FunctionId.KV_PUSH_PULL;
}

/** A well-formed frame with a JSON body. */
export function jsonFrameBytes(kind: Kind, fields: HeaderFields, body: unknown): Uint8Array {
  return frameBytes(kind, fields, encodeJson(body));
}

/** Keys, values and lens one after the other, as a kv payload has them. */
export function kvPayload(keys: readonly bigint[], values: ArrayLike<number> = [], lens: ArrayLike<number> = []): Uint8Array {
  const [valuesAt, lensAt] = [8 * keys.length, 8 * keys.length + 4 * values.length];
  const bytes = new Uint8Array(lensAt + 4 * lens.length);
  new BigUint64Array(bytes.buffer, 0, keys.length).set(keys);
  new Float32Array(bytes.buffer, valuesAt, values.length).set(values);
  new Int32Array(bytes.buffer, lensAt, lens.length).set(lens);
  return bytes;
}
