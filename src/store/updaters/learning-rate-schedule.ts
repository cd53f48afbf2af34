// learning-rate-schedule — how an optimizer's learning rate changes during training, as JSON: one worker sets it, and
// every server computes the same rates from it (learning-rate.ts).

import { badField, checkChoice, checkFields, checkNumber } from "../bad-field.ts";

/** The share of the learning rate over the steps, which are clocks, wherever the parameter lives. */
export type ScheduleSpec =
  | { readonly type: "constant" }
  | {
      readonly type: "step";
      /** The rate is multiplied each time this number of steps has passed. */
      readonly every: number;
      /** With this: above 0, up to 1. */
      readonly factor: number;
    }
  | {
      readonly type: "cosine";
      /** How many steps lead from 1 down to the floor. */
      readonly steps: number;
      /** The share at the end. Defaults to 0. */
      readonly floor?: number | undefined;
    }
  | {
      readonly type: "warmUp";
      /** How many steps lead up to 1. */
      readonly steps: number;
      /** The share at the beginning. Defaults to 0. */
      readonly from?: number | undefined;
      /** What follows, its steps counted from 0. Defaults to a constant rate. */
      readonly after?: ScheduleSpec | undefined;
    };

/** A schedule with every field of its type, as servers have it. The fields are those of `ScheduleSpec`. */
export type ResolvedSchedule =
  | { readonly type: "constant" }
  | { readonly type: "step"; readonly every: number; readonly factor: number }
  | { readonly type: "cosine"; readonly steps: number; readonly floor: number }
  | { readonly type: "warmUp"; readonly steps: number; readonly from: number; readonly after: ResolvedSchedule };

export const CONSTANT_SCHEDULE: ResolvedSchedule = { type: "constant" };

/** The fields of each type, besides `type`. */
const FIELDS: Readonly<Record<ScheduleSpec["type"], readonly string[]>> = {
  constant: [],
  step: ["every", "factor"],
  cosine: ["steps", "floor"],
  warmUp: ["steps", "from", "after"],
};

const TYPES = Object.keys(FIELDS) as ScheduleSpec["type"][];

/** Sets the defaults; idempotent. Throws BAD_ARGUMENT, naming the field, the expected and the actual value. */
export function resolveSchedule(spec: unknown, path = "schedule"): ResolvedSchedule {
  if (spec === undefined) return CONSTANT_SCHEDULE;
  if (typeof spec !== "object" || spec === null) throw badField(path, "an object with a type", spec);
  const fields = spec as Readonly<Record<string, unknown>>;
  const type = checkChoice(`${path}.type`, fields.type, TYPES);
  checkFields(path, fields, ["type", ...FIELDS[type]], type);
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
  return checkNumber(path, value, "a whole number of at least 1", (steps) => Number.isSafeInteger(steps) && steps >= 1);
}

function decline(path: string, value: unknown): number {
  return checkNumber(path, value, "a number above 0 and up to 1", (factor) => factor > 0 && factor <= 1);
}

function share(path: string, value: unknown): number {
  return checkNumber(path, value, "a number from 0 to 1", (part) => part >= 0 && part <= 1);
}
