// simple-frame — SIMPLE: a number and some bytes to an application, and bytes back.
//
//   request   command: the head │ app, customer │ payload: the body
//             of more than PAYLOAD_BYTES_MAX: in frames of a block, all but the last with PART (FunctionFlag), which
//             are acknowledged;
//             arg1 number of the request at its sender │ arg2 first byte of this frame │ arg3 bytes of the whole body
//   answer    the bytes, in as many frames as it takes; args: u64 totalBytes, u64 offsetBytes

import { badArgument } from "../base/errors.ts";
import { BLOCK_BYTES, PAYLOAD_BYTES_MAX } from "./frame.ts";

/** What a body may cost its receiver. */
export const BODY_BYTES_MAX: number = 64 * 1024 * 1024;

/** Throws BAD_ARGUMENT for a body that is too long. */
export function checkBody(body: Uint8Array): void {
  if (body.length > BODY_BYTES_MAX) throw badArgument(bodyTooLong(body.length));
}

export function bodyTooLong(byteCount: number): string {
  return `a body of ${byteCount} bytes is over the limit of ${BODY_BYTES_MAX}: send values with push`;
}

/** The body as it is cut into frames; one that fits a frame is not cut. */
export function bodyParts(body: Uint8Array): Uint8Array[] {
  if (body.length <= PAYLOAD_BYTES_MAX) return [body];
  const parts: Uint8Array[] = [];
  for (let from = 0; from < body.length; from += BLOCK_BYTES) parts.push(body.subarray(from, from + BLOCK_BYTES));
  return parts;
}
