// opening — what the first bytes of a link show about the other end, before a whole frame is there: another program,
// another version, or one of ours. So a web server's short answer differs from a broken link. Not the header
// (frame.ts).

import { MAGIC, PROTOCOL_VERSION } from "./frame.ts";

/** Enough to recognize it. */
export const OPENING_BYTES = 4;

const VERSION_OFFSET = 2;
const QUOTE_CHARS_MAX = 40;
/** The first bytes of ZeroMQ. */
const ZMTP_OPENING = 0x000000ff;

/** `version` is undefined for what is no frame of any version. */
export type Opening = { readonly isOurs: boolean; readonly version: number | undefined };

export function readOpening(bytes: Uint8Array): Opening {
  const isFrame = bytes[0] === (MAGIC & 0xff) && bytes[1] === MAGIC >> 8;
  const version = isFrame ? bytes[VERSION_OFFSET] : undefined;
  return { isOurs: version === PROTOCOL_VERSION, version };
}

/** The first line of the input, for people: `"HTTP/1.1 400 Bad Request"`, or its first bytes in hexadecimal. */
export function quoteOpening(bytes: Uint8Array): string {
  const [line = ""] = new TextDecoder("latin1").decode(bytes.subarray(0, QUOTE_CHARS_MAX)).split(/\r?\n/, 1);
  if (/^[ -~]{4,}$/.test(line)) return `"${line}"`;
  const hex = Array.from(bytes.subarray(0, OPENING_BYTES), (byte) => byte.toString(16).padStart(2, "0"));
  return `the bytes ${hex.join(" ")}`;
}

export function strangeOpening(opening: number): string {
  return `it starts with 0x${(opening & 0xffff).toString(16)}, not with the magic bytes "WB"${psliteHint(opening)}`;
}

/** Names the protocol that it may be: a node without --van zmq is the likeliest stranger. */
export function psliteHint(opening: number): string {
  if (opening !== ZMTP_OPENING) return "";
  return ", as ps-lite's programs do: for those start every node of ours with --van zmq (DMLC_PS_VAN_TYPE=zmq)";
}
