// json-body — control messages are JSON (docs/decisions/0002): rare, small, and easy to produce in any language. A body
// of another shape is the peer's fault; the error names where it differs. The data plane never comes here.

import { badRequest, WeighbridgeError } from "../base/errors.ts";
import { encodeHeader, type FrameHeader, HEADER_BYTES, paddedBytes } from "./frame.ts";

/** Takes a decoded value apart or throws BAD_REQUEST; `path` names the value for the message. */
export type Check<T> = (value: unknown, path: string) => T;

export type Checked<C> = C extends Check<infer T> ? T : never;

const SHOWN_LENGTH_MAX = 80;

const encoder = new TextEncoder(); // to make one takes longer than most bodies do
const decoder = new TextDecoder("utf-8", { fatal: true });

function mismatch(path: string, expected: string, value: unknown): WeighbridgeError {
  return badRequest(`${path} must be ${expected}, but is ${describe(value)}`);
}

/** Never looks into lists and objects: a peer may have nested them deeper than the stack is. */
function describe(value: unknown): string {
  if (value === undefined) return "left out";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object" && value !== null) return "an object";
  if (typeof value === "string" && value.length > SHOWN_LENGTH_MAX)
    return `${value.length} characters long: ${JSON.stringify(value.slice(0, SHOWN_LENGTH_MAX))}…`;
  return JSON.stringify(value);
}

/** A check that says what a value has to be. */
function checkOf<T>(expected: string, isExpected: (value: unknown) => value is T): Check<T> {
  return (value, path) => {
    if (!isExpected(value)) throw mismatch(path, expected, value);
    return value;
  };
}

export const text: Check<string> = checkOf("a string", (value) => typeof value === "string");

/** A string that is kept or handed on, like a name: it must not be a peer's way to fill others' memory. */
export function shortText(lengthMax: number): Check<string> {
  const expected = `a string of at most ${lengthMax} characters`;
  return checkOf(expected, (value): value is string => typeof value === "string" && value.length <= lengthMax);
}

export const flag: Check<boolean> = checkOf("true or false", (value) => typeof value === "boolean");

/** A whole number from 0 up. */
export const count: Check<number> = checkOf("a whole number from 0 up", (value): value is number => isWhole(value) && value >= 0);

export const wholeNumber: Check<number> = checkOf("a whole number", isWhole);

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value);
}

export function oneOf<const T extends string>(...allowed: readonly T[]): Check<T> {
  return (value, path) => {
    const found = allowed.find((candidate) => candidate === value);
    if (found === undefined) throw mismatch(path, `one of ${allowed.join(", ")}`, value);
    return found;
  };
}

export function optional<T>(check: Check<T>): Check<T | undefined> {
  return (value, path) => (value === undefined || value === null ? undefined : check(value, path));
}

export function list<T>(check: Check<T>): Check<readonly T[]> {
  return (value, path) => {
    if (!Array.isArray(value)) throw mismatch(path, "a list", value);
    return value.map((item: unknown, index) => check(item, `${path}[${index}]`));
  };
}

export type ObjectShape = Readonly<Record<string, Check<unknown>>>;

/** An object with these fields; fields it does not name are ignored, so that newer peers may add some. */
export function object<S extends ObjectShape>(shape: S): Check<{ readonly [K in keyof S]: Checked<S[K]> }> {
  const checks = Object.entries(shape);
  return (value, path) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) throw mismatch(path, "an object", value);
    const fields = value as Readonly<Record<string, unknown>>;
    const result: Record<string, unknown> = {};
    for (const [name, check] of checks) result[name] = check(fields[name], `${path}.${name}`);
    return result as { readonly [K in keyof S]: Checked<S[K]> };
  };
}

export function encodeJson(value: unknown): Uint8Array {
  return encoder.encode(JSON.stringify(value));
}

/** A whole frame with this header and this body. */
export function jsonFrame(header: FrameHeader, value: unknown): Uint8Array<ArrayBuffer> {
  const body = encodeJson(value);
  const frame = new Uint8Array(HEADER_BYTES + paddedBytes(body.length));
  header.payloadBytes = body.length;
  encodeHeader(header, new Uint32Array(frame.buffer), 0);
  frame.set(body, HEADER_BYTES);
  return frame;
}

/** `name` is the message's, for the error. */
export function decodeJson<T>(check: Check<T>, name: string, body: Uint8Array): T {
  let value: unknown;
  try {
    value = JSON.parse(decoder.decode(body));
  } catch (cause) {
    throw new WeighbridgeError("BAD_REQUEST", `the body of ${name} is not JSON`, { cause });
  }
  return check(value, name);
}
