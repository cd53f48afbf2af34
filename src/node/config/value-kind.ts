// value-kind — the kinds of value a key may have: how each is read and checked, and its words for errors and help. Text
// is accepted for a number, because the command line and the environment only have text.

import { isIP } from "node:net";
import { isAbsolute } from "node:path";

/** A value that was accepted. */
export type ReadValue<T> = { readonly value: T };

export type ValueKind<T> = {
  /** Undefined: the value is not of this kind. */
  readonly read: (given: unknown) => ReadValue<T> | undefined;
  /** Completes the sentence "expected …". */
  readonly expected: string;
  /** Stands for the value in a flag: `--rank <rank>`, `--resume [=directory]`; empty: the flag has none. */
  readonly placeholder: string;
  /** All values, if they are words. */
  readonly words?: readonly string[];
  /** True for a time: on the command line it has a unit. */
  readonly isTime?: boolean;
};

type Bounds = { readonly min: number; readonly max: number };

/** The word for "not set" in an optional key. */
export const NONE = "none";
export const PORT_MAX = 65_535;
/** Node's timers accept no more; a longer one would fire at once. */
export const DURATION_MS_MAX: number = 2 ** 31 - 1;

const KIB = 1024;
const UNIT_BYTES: Readonly<Record<string, number>> = { "": 1, kib: KIB, mib: KIB ** 2, gib: KIB ** 3, tib: KIB ** 4 };
const SIZE = /^(\d+(?:\.\d+)?) ?(|kib|mib|gib|tib)$/i;
const HOST_NAME = /^[a-z0-9_]([a-z0-9._-]{0,251}[a-z0-9_.])?$/i;
const DOTTED_NUMBER = /^[\d.]+$/;

/** A number, or text of this pattern as one; NaN for everything else. */
function numeric(given: unknown, pattern: RegExp): number {
  if (typeof given === "string") return pattern.test(given) ? Number(given) : Number.NaN;
  return typeof given === "number" ? given : Number.NaN;
}

function within(value: number, { min, max }: Bounds): ReadValue<number> | undefined {
  return value >= min && value <= max ? { value } : undefined;
}

function wholeWithin(value: number, bounds: Bounds): ReadValue<number> | undefined {
  return Number.isSafeInteger(value) ? within(value, bounds) : undefined;
}

/** Text that fits. */
function textOf(given: unknown, fits: (text: string) => boolean): ReadValue<string> | undefined {
  return typeof given === "string" && fits(given) ? { value: given } : undefined;
}

export function wholeNumber(bounds: Bounds, placeholder: string): ValueKind<number> {
  const read = (given: unknown): ReadValue<number> | undefined => wholeWithin(numeric(given, /^\d+$/), bounds);
  return { read, expected: `a whole number from ${bounds.min} to ${bounds.max}`, placeholder };
}

const TIME = /^(\d+(?:\.\d+)?)(ms|s|min|h)?$/;
const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, min: 60_000, h: 3_600_000 };

/** A time as a number of milliseconds, or as text with a unit. */
export function milliseconds(min: number): ValueKind<number> {
  const read = (given: unknown): ReadValue<number> | undefined => {
    const [, amount = "", unit = "ms"] = TIME.exec(String(given)) ?? [];
    return wholeWithin(amount === "" ? Number.NaN : Number(amount) * (UNIT_MS[unit] ?? Number.NaN), { min, max: DURATION_MS_MAX });
  };
  const expected = `a time such as 500ms, 60s, 5min or 1h, or a number of milliseconds, of at least ${min} ms`;
  return { read, expected, placeholder: "time", isTime: true };
}

/** Whether a text has the unit that a time on the command line needs. */
export function hasUnit(text: string): boolean {
  return text === "0" || !/^[\d.]+$/.test(text);
}

/** `60s`, or `500steps`: after how much time, or how many steps, something is due again. */
export function every(minMs: number): ValueKind<string> {
  const time = milliseconds(minMs);
  const read = (given: unknown): ReadValue<string> | undefined => {
    if (typeof given !== "string" || /^[\d.]+$/.test(given)) return undefined;
    const steps = wholeWithin(numeric(/^(\d+) ?steps?$/.exec(given)?.[1], /^\d+$/), { min: 1, max: Number.MAX_SAFE_INTEGER });
    return steps === undefined && time.read(given) === undefined ? undefined : { value: given };
  };
  return {
    read,
    expected: `a time such as 60s or 5min, of at least ${minMs} ms, or a number of steps such as 500steps`,
    placeholder: "often",
  };
}

export function percent(): ValueKind<number> {
  const read = (given: unknown): ReadValue<number> | undefined => within(numeric(given, /^\d+(\.\d+)?(e-\d+)?$/), { min: 0, max: 100 });
  return { read, expected: "a percentage from 0 to 100", placeholder: "percent" };
}

export function byteSize({ min, max = Number.MAX_SAFE_INTEGER }: { readonly min: number; readonly max?: number }): ValueKind<number> {
  const read = (given: unknown): ReadValue<number> | undefined =>
    wholeWithin(typeof given === "string" ? bytesOf(given) : numeric(given, SIZE), { min, max });
  const bounds = max === Number.MAX_SAFE_INTEGER ? `at least ${min}` : `from ${min} to ${max}`;
  return { read, expected: `a whole number of bytes, ${bounds}, or a size such as 64MiB`, placeholder: "bytes" };
}

function bytesOf(size: string): number {
  const [, amount, unit = ""] = SIZE.exec(size) ?? [];
  return Number(amount ?? Number.NaN) * (UNIT_BYTES[unit.toLowerCase()] ?? Number.NaN);
}

export function oneOf<const T extends string>(words: readonly [T, ...T[]], placeholder: string): ValueKind<T> {
  const expected = words.length === 1 ? words[0] : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;
  const read = (given: unknown): ReadValue<T> | undefined => {
    const value = words.find((word) => word === given);
    return value === undefined ? undefined : { value };
  };
  return { read, expected, placeholder, words };
}

/** On or off; as a flag it has no value, and means on. */
export function flag(): ValueKind<"on" | "off"> {
  const words = oneOf(["on", "off"], "");
  return { ...words, read: (given) => words.read(typeof given === "boolean" ? (given ? "on" : "off") : given) };
}

export function hostName(): ValueKind<string> {
  const isHost = (text: string): boolean => isIP(text) !== 0 || (HOST_NAME.test(text) && !DOTTED_NUMBER.test(text));
  const read = (given: unknown): ReadValue<string> | undefined =>
    textOf(typeof given === "string" ? given.replace(/^\[(.*)\]$/, "$1") : given, isHost);
  return { read, expected: "an IP address or a host name, without scheme and port", placeholder: "host" };
}

export function absolutePath(): ValueKind<string> {
  return { read: (given) => textOf(given, isAbsolute), expected: "an absolute path", placeholder: "folder" };
}

export function label(charsMax: number, placeholder: string): ValueKind<string> {
  const read = (given: unknown): ReadValue<string> | undefined => textOf(given, ({ length }) => length >= 1 && length <= charsMax);
  return { read, expected: `a text of 1 to ${charsMax} characters`, placeholder };
}

/** Without a slash, which separates the name from the run (wire/hello.ts). */
export function jobName(charsMax: number): ValueKind<string> {
  const read = (given: unknown): ReadValue<string> | undefined =>
    textOf(given, (text) => text.length >= 1 && text.length <= charsMax && !text.includes("/"));
  return { read, expected: `a text of 1 to ${charsMax} characters without a slash`, placeholder: "name" };
}

/** Text of a list, separated by commas, or a list of texts; each is read by `item`, and the whole is text again. */
function listOf(given: unknown, item: (text: string) => string | undefined): ReadValue<string> | undefined {
  const texts: unknown[] = typeof given === "string" ? given.split(",") : Array.isArray(given) ? given : [];
  const items = texts.map((text) => (typeof text === "string" ? item(text.trim()) : undefined));
  if (items.length === 0 || items.includes(undefined) || new Set(items).size < items.length) return undefined;
  return { value: items.join(",") };
}

/** Hosts with ports: `a.example:9700,[::1]:9700`. */
export function hostPorts(): ValueKind<string> {
  const host = hostName();
  const read = (text: string): string | undefined => {
    const [, name = "", digits = ""] = /^(.+):(\d{1,5})$/.exec(text) ?? [];
    const isPort = Number(digits) >= 1 && Number(digits) <= PORT_MAX;
    const isPlain = !name.includes(":") || name.startsWith("[");
    return isPort && isPlain && host.read(name) !== undefined ? `${name}:${Number(digits)}` : undefined;
  };
  return {
    read: (given) => listOf(given, read),
    expected: "hosts with ports, such as a:9700,b:9700, no two the same",
    placeholder: "addresses",
  };
}

/** Where members of etcd answer: `http://a:2379,https://b:2379`. */
export function urls(): ValueKind<string> {
  const read = (text: string): string | undefined => {
    const url = URL.canParse(text) ? new URL(text) : undefined;
    const isPlain = url !== undefined && /^https?:$/.test(url.protocol) && `${url.origin}/` === url.href;
    return isPlain ? url.origin : undefined;
  };
  return {
    read: (given) => listOf(given, read),
    expected: "URLs such as http://a:2379,http://b:2379, no two the same",
    placeholder: "urls",
  };
}

/** The same kind, or the word `none`. */
export function optional<T>(kind: ValueKind<T>): ValueKind<T | undefined> {
  const read = (given: unknown): ReadValue<T | undefined> | undefined => (given === NONE ? { value: undefined } : kind.read(given));
  return { ...kind, read, expected: `${kind.expected}, or ${NONE}` };
}
