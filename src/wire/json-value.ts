// json-value — plain data that a manifest keeps word for word: settings of optimizers, initializers and schedules. It
// comes back equal or is refused when written: JSON has no Infinity, NaN or bigint, and would drop or change them.

import { badRequest } from "../base/errors.ts";
import type { Check } from "./json-body.ts";

/** Any JSON value. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;
/** A JSON object. */
export type JsonObject = { readonly [name: string]: JsonValue };

/** Says what something is: `kind` names it, the rest are its settings. */
export type Described = JsonObject & { readonly kind: string };

/** Deeper than any setting; it bounds the recursion of a walk through it. */
const DEPTH_MAX = 32;

export const jsonObject: Check<JsonObject> = (value, path) => {
  if (!isObject(value)) throw badRequest(`${path} must be an object`);
  requireJson(value, path);
  return value as JsonObject;
};

export const described: Check<Described> = (value, path) => {
  const settings = jsonObject(value, path);
  if (typeof settings.kind !== "string") throw badRequest(`${path}.kind must be a string`);
  return settings as Described;
};

/** Throws BAD_REQUEST, naming the value, if `value` would not come back from JSON as it is. */
function requireJson(value: unknown, path: string, depth = 0): void {
  if (depth > DEPTH_MAX) throw badRequest(`${path} is nested deeper than ${DEPTH_MAX} levels`);
  if (Array.isArray(value)) {
    value.forEach((item, index) => {
      requireJson(item, `${path}[${index}]`, depth + 1);
    });
  } else if (isObject(value)) {
    for (const [name, item] of Object.entries(value)) requireJson(item, `${path}.${name}`, depth + 1);
  } else if (!isScalar(value)) {
    throw badRequest(`${path} is ${String(value)}, which JSON cannot keep`);
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function isScalar(value: unknown): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  return value === null || typeof value === "boolean" || typeof value === "string";
}
