// hello — the first frame on every link, both ways: the sender, its job and incarnation, and its point in the
// conversation. And what the first bytes of a link show about the other end before a whole frame is there: another
// program, another version, or one of ours, so that a web server's short answer differs from a broken link.
//
// A job has a name and a run, `NAME/RUN`. People give the name, which outlives every scheduler and every start. The run
// distinguishes one start of the whole job from the next, so that nodes of an earlier start are strangers to it. A node
// that knows no run yet sends `NAME`, one that does not know the name sends "".

import { MAGIC, PROTOCOL_VERSION } from "./frame.ts";
import { type Check, count, list, object, oneOf, optional, shortText } from "./json-body.ts";

/** Of a job: `NAME/RUN` (jobId). */
export const jobShape: Check<string> = shortText(256);

const SEPARATOR = "/";

export function jobId(name: string, run: string): string {
  return `${name}${SEPARATOR}${run}`;
}

export function jobNameOf(job: string): string {
  return job.split(SEPARATOR, 1)[0] ?? "";
}

/** In what two ids contradict each other, if they do: a missing name or run contradicts nothing. */
export function jobConflict(one: string, other: string): "name" | "run" | undefined {
  if (one === "" || other === "" || one === other) return undefined;
  if (jobNameOf(one) !== jobNameOf(other)) return "name";
  return one.includes(SEPARATOR) && other.includes(SEPARATOR) ? "run" : undefined;
}

/** Short enough for a hello and for a roster of many nodes. */
export const tokenShape: Check<string> = shortText(256);

/** Of the package that a node runs, such as 0.1.0. */
export const packageVersionShape: Check<string> = shortText(64);

/**
 * A node's kind: one of the roles, a guest that is not counted, or a tool that only talks to the scheduler. A pulse is
 * no node: it shows the scheduler that the process of `node` runs while the loop of that node is busy.
 */
export type MemberKind = "worker" | "server" | "standby" | "scheduler" | "guest" | "tool" | "pulse";

/** The capability to read runs of frames (frame.ts). */
export const READS_RUNS = "runs";

/**
 * What hellos say about memory that both ends share (docs/decisions/0098): a dialer that can share some names its host,
 * an acceptor on that host offers some, and the dialer's second hello answers: with a proof, or without.
 */
export type HelloMemory = {
  readonly host?: string | undefined;
  readonly offer?: { readonly path: string; readonly byteCount: number; readonly nonce: string } | undefined;
  readonly proof?: string | undefined;
};

export type Hello = {
  /** The job both belong to (jobId). */
  readonly job: string;
  readonly kind: MemberKind;
  /** The sender's node id; 0 before the scheduler has given one. */
  readonly node: number;
  /** Which incarnation of that node this is: a restarted node comes back with a higher one. */
  readonly incarnation: number;
  /** The next request number the sender expects from the receiver: 1 when it does not know it. */
  readonly expects: number;
  /** Of the package that the sender runs, if it says so. */
  readonly packageVersion?: string | undefined;
  /** What the sender can do beside what every node of this version can; unknown ones are ignored. */
  readonly capabilities?: readonly string[] | undefined;
  /** From a dialer that has a rank: the token it registered with, as proof that it is that node. */
  readonly token?: string | undefined;
  /** From a dialer: the newest incarnation of the receiver that it has talked with; left out: none. */
  readonly knows?: number | undefined;
  readonly sharedMemory?: HelloMemory | undefined;
};

const helloMemoryShape: Check<HelloMemory> = object({
  host: optional(shortText(64)),
  offer: optional(object({ path: shortText(64), byteCount: count, nonce: shortText(64) })),
  proof: optional(shortText(64)),
});

export const helloShape: Check<Hello> = object({
  job: jobShape,
  kind: oneOf("worker", "server", "standby", "scheduler", "guest", "tool", "pulse"),
  node: count,
  incarnation: count,
  expects: count,
  packageVersion: optional(packageVersionShape),
  capabilities: optional(list(shortText(64))),
  token: optional(tokenShape),
  knows: optional(count),
  sharedMemory: optional(helloMemoryShape),
});

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
