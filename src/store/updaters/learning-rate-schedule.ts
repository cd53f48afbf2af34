// learning-rate-schedule — how an optimizer's learning rate changes during training, as JSON: one worker sets it, and
// every server computes the same rates from it (learning-rate.ts).

import { badChoice, badField, checkFields } from "../bad-field.ts";

/** The share of the learning rate over the steps, which are clocks. */
export type ScheduleSpec =
  | { readonly type: "constant" }
  | {
      readonly type: "step";
      /** After so many steps the rate is multiplied. */
      readonly every: number;
      /** With this: above 0, up to 1. */
      readonly factor: number;
    }
  | {
      readonly type: "cosine";
      /** So many steps from 1 down to the floor. */
      readonly steps: number;
      /** The share at the end. Defaults to 0. */
      readonly floor?: number;
    }
  | {
      readonly type: "warmUp";
      /** So many steps up to 1. */
      readonly steps: number;
      /** The share at the beginning. Defaults to 0. */
      readonly from?: number;
      /** What follows, its steps counted from 0. Defaults to a constant rate. */
      readonly after?: ScheduleSpec;
    };

/** A schedule with every field present, in the order of its fields: equal schedules have equal JSON. */
export type ResolvedSchedule =
  | { readonly type: "constant" }
  | { readonly type: "step"; readonly every: number; readonly factor: number }
  | { readonly type: "cosine"; readonly steps: number; readonly floor: number }
  | { readonly type: "warmUp"; readonly steps: number; readonly from: number; readonly after: ResolvedSchedule };

export const CONSTANT_SCHEDULE: ResolvedSchedule = { type: "constant" };

/** The fields of each type, besides `type`. */
const FIELDS: Readonly<Record<string, readonly string[]>> = {
  constant: [],
  step: ["every", "factor"],
  cosine: ["steps", "floor"],
  warmUp: ["steps", "from", "after"],
};

/** Sets the defaults; idempotent. Throws BAD_ARGUMENT, naming the field, the expected and the actual value. */
export function resolveSchedule(spec: unknown, path = "schedule"): ResolvedSchedule {
  if (spec === undefined) return CONSTANT_SCHEDULE;
  if (typeof spec !== "object" || spec === null) throw badField(path, "an object with a type", spec);
  const fields = spec as Readonly<Record<string, unknown>>;
  const type = fields.type;
  const known = typeof type === "string" && Object.hasOwn(FIELDS, type) ? FIELDS[type] : undefined;
  if (known === undefined) throw badChoice(`${path}.type`, Object.keys(FIELDS), type);
  checkFields(path, fields, ["type", ...known], String(type));
  switch (type) {
    case "step":
      return { type, every: count(`${path}.every`, fields.every), factor: decline(`${path}.factor`, fields.factor) };
    case "cosine":
      return { type, steps: count(`${path}.steps`, fields.steps), floor: share(`${path}.floor`, fields.floor ?? 0) };
    case "warmUp":
      return {
        type,
        steps: count(`${path}.steps`, fields.steps),
        from: share(`${path}.from`, fields.from ?? 0),
        after: resolveSchedule(fields.after, `${path}.after`),
      };
    default:
      return CONSTANT_SCHEDULE;
  }
}

function count(path: string, value: unknown): number {
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 1) return value;
  throw badField(path, "a whole number of at least 1", value);
}

function decline(path: string, value: unknown): number {
  if (typeof value === "number" && value > 0 && value <= 1) return value;
  throw badField(path, "a number above 0 and up to 1", value);
}

function share(path: string, value: unknown): number {
  if (typeof value === "number" && value >= 0 && value <= 1) return value;
  throw badField(path, "a number from 0 to 1", value);
}
