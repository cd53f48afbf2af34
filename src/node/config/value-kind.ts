// value-kind — the kinds of value a key may have: a schema that checks (and reads text), and the words for an error or a help page.
// Text is accepted wherever a number is, because the command line and the environment only have text.

import { isIP } from "node:net";
import { isAbsolute } from "node:path";
import { z } from "zod";

export type ValueKind<T> = {
  readonly schema: z.ZodType<T>;
  /** Completes the sentence "expected …". */
  readonly expected: string;
  /** Stands for the value in a flag: `--port <port>`. */
  readonly placeholder: string;
};

type Bounds = { readonly min: number; readonly max: number };

/** The word for "not set" in an optional key. */
export const NONE = "none";
export const PORT_MAX = 65_535;
/** Node's timers take no more; a longer one would fire at once. */
export const DURATION_MS_MAX: number = 2 ** 31 - 1;

const KIB = 1024;
const UNIT_BYTES: Readonly<Record<string, number>> = { "": 1, kib: KIB, mib: KIB ** 2, gib: KIB ** 3, tib: KIB ** 4 };
const SIZE = /^(\d+(?:\.\d+)?) ?(|kib|mib|gib|tib)$/i;
const HOST_NAME = /^[a-z0-9_]([a-z0-9._-]{0,251}[a-z0-9_.])?$/i;
const DOTTED_NUMBER = /^[\d.]+$/;

function numeric(pattern: RegExp): z.ZodType<number> {
  return z.union([z.number(), z.string().regex(pattern).transform(Number)]);
}

export function wholeNumber({ min, max }: Bounds, placeholder: string): ValueKind<number> {
  const schema = numeric(/^\d+$/).pipe(z.int().min(min).max(max));
  return { schema, expected: `a whole number from ${min} to ${max}`, placeholder };
}

export function milliseconds(min: number): ValueKind<number> {
  const kind = wholeNumber({ min, max: DURATION_MS_MAX }, "ms");
  return { ...kind, expected: `a whole number of milliseconds from ${min} to ${DURATION_MS_MAX}` };
}

export function percent(): ValueKind<number> {
  const schema = numeric(/^\d+(\.\d+)?(e-\d+)?$/).pipe(z.number().min(0).max(100));
  return { schema, expected: "a percentage from 0 to 100", placeholder: "percent" };
}

export function byteSize({ min, max = Number.MAX_SAFE_INTEGER }: { readonly min: number; readonly max?: number }): ValueKind<number> {
  const text = z.string().regex(SIZE).transform(bytesOf);
  const schema = z.union([z.number(), text]).pipe(z.int().min(min).max(max));
  const bounds = max === Number.MAX_SAFE_INTEGER ? `at least ${min}` : `from ${min} to ${max}`;
  return { schema, expected: `a whole number of bytes, ${bounds}, or a size such as 64MiB`, placeholder: "bytes" };
}

function bytesOf(size: string): number {
  const [, amount = "", unit = ""] = SIZE.exec(size) ?? [];
  return Number(amount) * (UNIT_BYTES[unit.toLowerCase()] ?? Number.NaN);
}

export function oneOf<const T extends string>(words: readonly [T, ...T[]], placeholder: string): ValueKind<T> {
  const expected = words.length === 1 ? words[0] : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;
  return { schema: z.enum(words), expected, placeholder };
}

export function hostName(): ValueKind<string> {
  const bare = z.string().transform((text) => text.replace(/^\[(.*)\]$/, "$1"));
  const schema = bare.refine((text) => isIP(text) !== 0 || (HOST_NAME.test(text) && !DOTTED_NUMBER.test(text)));
  return { schema, expected: "an IP address or a host name, without scheme and port", placeholder: "host" };
}

export function absolutePath(): ValueKind<string> {
  return { schema: z.string().refine((text) => isAbsolute(text)), expected: "an absolute path", placeholder: "folder" };
}

export function label(charsMax: number, placeholder: string): ValueKind<string> {
  return { schema: z.string().min(1).max(charsMax), expected: `a text of 1 to ${charsMax} characters`, placeholder };
}

/** The same kind, or the word `none`. */
export function optional<T>(kind: ValueKind<T>): ValueKind<T | undefined> {
  const none = z.literal(NONE).transform(() => undefined);
  return { ...kind, schema: z.union([none, kind.schema]), expected: `${kind.expected}, or ${NONE}` };
}
