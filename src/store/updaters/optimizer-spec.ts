// optimizer-spec — an optimizer as users write it, its defaults and checks, and the memory it needs beside the values.
// Not the arithmetic (kernels/optimizers); Updater turns a spec and a step into a kernel call.
//
//   type              settings (defaults as in PyTorch, if it has the optimizer)                slots          words
//   sum               value += gradient                                                         –
//   assign, min, max  value = gradient, the lesser, the greater of the two                      –
//   sgd               learningRate 0.01, weightDecay 0                                          –
//   momentum          learningRate 0.01, momentum 0.9, weightDecay 0                            velocity
//   nesterov          as momentum                                                               velocity
//   adagrad           learningRate 0.01, epsilon 1e-10, initialAccumulator 0, weightDecay 0     sum of squares
//   rowWiseAdagrad    learningRate 0.01, epsilon 1e-8, initialAccumulator 0, weightDecay 0      1 float a row
//   adam              learningRate 0.001, beta1 0.9, beta2 0.999, epsilon 1e-8, weightDecay 0   2 moments      step
//   lazyAdam          as adam without decay; one step for each push to it (SparseAdam)          2 moments
//   adamW             as adam, weightDecay 0.01, decoupled                                      2 moments      step
//   rmsprop           learningRate 0.01, alpha 0.99, epsilon 1e-8, momentum 0, weightDecay 0    mean square, velocity
//   ftrl              alpha 0.1, beta 1, l1 0, l2 0, initialAccumulator 0                       z, n
//   dcAsgd            learningRate 0.01, lambda 2, decay 0.95, epsilon 1e-7, weightDecay 0      mean square, pulls
//
//   custom            updater (its name), version, settings: a user's own (ps-updater.ts)       its columns
//
// A bare name stands for the optimizer with its defaults: "adam" is { type: "adam" }. custom has no bare name. The wire
// carries resolved specs only.
//
// All but assign, min and max take clipValue and clipNorm; those with a learningRate take a schedule; all take
// nonFinite. custom takes no clipValue; its updater may leave the learningRate unread.
//
// ftrl takes no schedule: it computes values anew from z and n at every update, as (sign(z)·l1 - z) / ((beta +
// √n)/alpha + l2). Half the alpha would halve every row that is touched, even by a gradient of 0. Its rate declines
// with √n.
//
// Invariants:
//   OptimizerSpec.S1. A resolved spec has every field of its type, in the order of this table: equal specs, equal JSON.
//   OptimizerSpec.S2. A spec is checked before any memory is taken; an unknown field is an error.
//   OptimizerSpec.S3. Numbers are checked as float32, as kernels use them: 1e39 is infinite there, 1e-60 is 0.

import { badArgument, WeighbridgeError } from "../../base/errors.ts";
import type { Arena } from "../../kernel/arena.ts";
import type { MergeNumber } from "../../kernel/duplicate-kernels.ts";
import { OPTIMIZER, type OptimizerKernels } from "../../kernel/optimizer-kernels.ts";
import { badField, checkChoice, checkFields } from "../bad-field.ts";
import { type ResolvedSchedule, resolveSchedule, type ScheduleSpec } from "./learning-rate-schedule.ts";
import type { PsUpdater, UpdaterSettings } from "./ps-updater.ts";
import type { NonFiniteCounts } from "./updater.ts";

/**
 * What happens to a push that holds NaN or an infinity, or that would leave one in a value or a slot.
 *
 * - `"refuse"`: it fails with NOT_FINITE, and nothing is applied.
 * - `"skip"`: it is dropped whole, and counted.
 * - `"zero"`: the elements in question count as 0, and are counted.
 */
export type NonFinitePolicy = "refuse" | "skip" | "zero";

/** What every optimizer may have. */
export type Guarded = {
  /** What happens to values that are not finite. Defaults to "refuse". */
  readonly nonFinite?: NonFinitePolicy | undefined;
};
/** What optimizers may have that take gradients. */
export type Clipped = Guarded & {
  /** The gradient's elements are cut to ± this. null, the default: they are not. */
  readonly clipValue?: number | null | undefined;
  /** The worker scales what a call pushes, duplicates added, down to this norm. null, the default: it does not. */
  readonly clipNorm?: number | null | undefined;
};
/** What optimizers with a learning rate may have. */
export type Scheduled = Clipped & {
  /** What a gradient is multiplied with. Defaults to 0.001 for the optimizers of Adam's kind, to 0.01 for others. */
  readonly learningRate?: number | undefined;
  /** The share of the rate that counts at a clock. Defaults to all of it. */
  readonly schedule?: ScheduleSpec | undefined;
};
/** What optimizers with a learning rate and a weight decay may have. */
export type Decaying = Scheduled & {
  /** Multiplied with the value and added to the gradient; adamW subtracts it from the value. Default 0, adamW 0.01. */
  readonly weightDecay?: number | undefined;
};
/** Settings of `adam`, `adamW` and `lazyAdam`. */
export type AdamSettings = {
  /** How much of the mean of gradients stays at each step. Defaults to 0.9. */
  readonly beta1?: number | undefined;
  /** How much of the mean of their squares stays. Defaults to 0.999. */
  readonly beta2?: number | undefined;
  /** Added to the root of the mean square, so that nothing is divided by 0. Defaults to 1e-8. */
  readonly epsilon?: number | undefined;
};
/** Settings of `adagrad` and `rowWiseAdagrad`. */
export type AdagradSettings = {
  /** Added to the root of the sum of squares. Defaults to 1e-10, for rowWiseAdagrad to 1e-8. */
  readonly epsilon?: number | undefined;
  /** What the sum of squares begins with. Defaults to 0. */
  readonly initialAccumulator?: number | undefined;
};
/** Settings of `momentum` and `nesterov`. */
export type MomentumSettings = {
  /** How much of the velocity stays at each step. Defaults to 0.9. */
  readonly momentum?: number | undefined;
};
/** Settings of `rmsprop`. */
export type RmspropSettings = {
  /** How much of the mean square stays at each step. Defaults to 0.99. */
  readonly alpha?: number | undefined;
  /** Added to the root of the mean square. Defaults to 1e-8. */
  readonly epsilon?: number | undefined;
  /** How much of the velocity stays at each step. 0, the default: there is none. */
  readonly momentum?: number | undefined;
};
/** Settings of `ftrl`. */
export type FtrlSettings = {
  /** The rate, which declines by itself as squares add up. Defaults to 0.1. */
  readonly alpha?: number | undefined;
  /** Keeps the first steps small. Defaults to 1. */
  readonly beta?: number | undefined;
  /** Values whose sum of gradients is below this are 0. Defaults to 0. */
  readonly l1?: number | undefined;
  /** Draws values towards 0. Defaults to 0. */
  readonly l2?: number | undefined;
  /** What the sum of squares begins with. Defaults to 0. */
  readonly initialAccumulator?: number | undefined;
};
/** Settings of `dcAsgd`, which compensates for delay. */
export type DcAsgdSettings = {
  /** The strength of the compensation. Defaults to 2. */
  readonly lambda?: number | undefined;
  /** How much of the mean square stays at each step. Defaults to 0.95. */
  readonly decay?: number | undefined;
  /** Added to the mean square, under the root. Defaults to 1e-7. */
  readonly epsilon?: number | undefined;
};

/** An updater that the servers have loaded (docs/guides/your-own-updater.md). What `with()` of one gives is such. */
export type CustomOptimizer = Guarded & {
  readonly type: "custom";
  /** Its name. */
  readonly updater: string;
  /** The version that the servers must have. Default: any, if all have the same. */
  readonly version?: number | undefined;
  /** Other settings than its defaults. */
  readonly settings?: Readonly<Record<string, number | string | boolean | undefined>> | undefined;
  /** The rate that the updater gets, by the schedule. Default: 0. */
  readonly learningRate?: number | undefined;
  /** The share of the rate that counts at a clock, if there is a rate. Defaults to all of it. */
  readonly schedule?: ScheduleSpec | undefined;
  /** The worker scales what a call pushes, duplicates added, down to this norm. null, the default: it does not. */
  readonly clipNorm?: number | null | undefined;
};

/**
 * What the servers do with a push: an optimizer with its settings. Those that are left out have their defaults, which
 * the guide "Optimizers" lists.
 */
export type OptimizerSpec =
  | CustomOptimizer
  | ({ readonly type: "sum" } & Clipped)
  | ({ readonly type: "assign" | "min" | "max" } & Guarded)
  | ({ readonly type: "sgd" } & Decaying)
  | ({ readonly type: "momentum" | "nesterov" } & Decaying & MomentumSettings)
  | ({ readonly type: "adagrad" | "rowWiseAdagrad" } & Decaying & AdagradSettings)
  | ({ readonly type: "adam" | "adamW" } & Decaying & AdamSettings)
  | ({ readonly type: "lazyAdam" } & Scheduled & AdamSettings)
  | ({ readonly type: "rmsprop" } & Decaying & RmspropSettings)
  | ({ readonly type: "ftrl" } & Clipped & FtrlSettings)
  | ({ readonly type: "dcAsgd" } & Decaying & DcAsgdSettings);

/** An optimizer with its defaults, as a bare name: `"adam"` is `{ type: "adam" }`. */
export type OptimizerName = Exclude<OptimizerSpec["type"], "custom">;

type SettingName =
  | "learningRate"
  | "weightDecay"
  | "momentum"
  | "epsilon"
  | "initialAccumulator"
  | "beta1"
  | "beta2"
  | "alpha"
  | "beta"
  | "l1"
  | "l2"
  | "lambda"
  | "decay";

/**
 * An optimizer with every field of its type, as servers have it. The fields are those of `OptimizerSpec`.
 * (OptimizerSpec.S1)
 */
export type ResolvedOptimizer = {
  readonly type: OptimizerName | "custom";
  /** Of a user's updater: its name, its version if required, and the settings that differ from its defaults. */
  readonly updater?: string;
  readonly version?: number;
  readonly settings?: UpdaterSettings;
  readonly schedule?: ResolvedSchedule;
  readonly clipValue?: number | null;
  readonly clipNorm?: number | null;
  readonly nonFinite: NonFinitePolicy;
} & { readonly [name in SettingName]?: number };

type Setting = { readonly initial: number; readonly expected: string; accepts(value: number): boolean };

const above = (initial: number): Setting => ({ initial, expected: "a number above 0", accepts: (value) => value > 0 });
const atLeast0 = (initial: number): Setting => ({ initial, expected: "a number of at least 0", accepts: (value) => value >= 0 });
const below1 = (initial: number): Setting => ({ initial, expected: "a number in [0, 1)", accepts: (value) => value >= 0 && value < 1 });

const ADAM = { learningRate: atLeast0(0.001), beta1: below1(0.9), beta2: below1(0.999), epsilon: above(1e-8) };
const MOMENTUM = { learningRate: atLeast0(0.01), momentum: below1(0.9), weightDecay: atLeast0(0) };
const ADAGRAD = { learningRate: atLeast0(0.01), epsilon: above(1e-10), initialAccumulator: atLeast0(0), weightDecay: atLeast0(0) };

const SETTINGS: Readonly<Record<OptimizerName, Readonly<Partial<Record<SettingName, Setting>>>>> = {
  sum: {},
  assign: {},
  min: {},
  max: {},
  sgd: { learningRate: atLeast0(0.01), weightDecay: atLeast0(0) },
  momentum: MOMENTUM,
  nesterov: MOMENTUM,
  adagrad: ADAGRAD,
  rowWiseAdagrad: { ...ADAGRAD, epsilon: above(1e-8) },
  adam: { ...ADAM, weightDecay: atLeast0(0) },
  lazyAdam: ADAM,
  adamW: { ...ADAM, weightDecay: atLeast0(0.01) },
  rmsprop: {
    learningRate: atLeast0(0.01),
    alpha: below1(0.99),
    epsilon: above(1e-8),
    momentum: below1(0),
    weightDecay: atLeast0(0),
  },
  ftrl: { alpha: above(0.1), beta: atLeast0(1), l1: atLeast0(0), l2: atLeast0(0), initialAccumulator: atLeast0(0) },
  dcAsgd: { learningRate: atLeast0(0.01), lambda: atLeast0(2), decay: below1(0.95), epsilon: above(1e-7), weightDecay: atLeast0(0) },
};

const TYPES = Object.keys(SETTINGS) as OptimizerName[];

/** What each is for, in the words of the error that lists them. */
const PURPOSES: Readonly<Record<OptimizerName, string>> = {
  sum: "adds what is pushed",
  assign: "stores what is pushed",
  min: "keeps the lesser value",
  max: "keeps the greater value",
  sgd: "subtracts rate × gradient",
  momentum: "sgd with a velocity",
  nesterov: "momentum that looks ahead",
  adagrad: "a rate per element, from past squares",
  rowWiseAdagrad: "a rate per row, for embeddings",
  adam: "mean and mean square of gradients",
  lazyAdam: "adam for sparse rows",
  adamW: "adam with decoupled weight decay",
  rmsprop: "a rate per element, from recent squares",
  ftrl: "sparse weights by l1",
  dcAsgd: "sgd that compensates for delay",
};
const POLICIES: readonly NonFinitePolicy[] = ["refuse", "skip", "zero"];
const VALUE_TYPES: ReadonlySet<OptimizerName | "custom"> = new Set(["assign", "min", "max"]);
const CUSTOM_FIELDS: readonly string[] = ["type", "updater", "version", "settings", "learningRate", "schedule", "clipNorm", "nonFinite"];
const UPDATER_FIELDS: readonly string[] = [
  ...["kind", "name", "version", "deterministic", "dtypes", "settings", "columns", "update", "save", "load", "with"],
];
const UPDATER_NAME = /^[a-zA-Z][\w.-]{0,63}$/;
const SETTINGS_MAX = 64;
const SETTING_LENGTH_MAX = 256;

/** Whether something that a module exports, or a user hands over, is what psUpdater made. */
export function isPsUpdater(value: unknown): value is PsUpdater {
  return typeof value === "object" && value !== null && "update" in value && "kind" in value && value.kind === "updater";
}

/**
 * Says that `what` ("tensor w") needs an optimizer, and lists those that it may have. None is the default: a gradient
 * that is added makes the loss grow.
 */
export function optimizerMissing(what: string, names: readonly OptimizerName[] = TYPES): WeighbridgeError {
  const choices = names.map((name) => `"${name}" (${PURPOSES[name]})`).join(", ");
  const how = 'write one as optimizer: "sum", or with settings as optimizer: { type: "sgd", learningRate: 0.1 }';
  const text = `${what} needs an optimizer, which says what the servers do with a push; ${how}`;
  return badArgument(`${text}. There are ${choices}, and psUpdater() for your own`);
}

/** Checks a spec and sets its defaults. Throws BAD_ARGUMENT, naming the field, the expected and the actual value. */
export function resolveOptimizer(chosen: OptimizerName | OptimizerSpec | PsUpdater, path = "optimizer"): ResolvedOptimizer {
  const spec = typeof chosen === "string" ? { type: checkType(path, chosen) } : chosen;
  if (typeof spec !== "object" || spec === null) throw badField(path, "the name of an optimizer, or an object with a type", spec);
  if (isPsUpdater(spec)) return resolveCustom(withDefaults(spec, path), path);
  const fields = spec as Readonly<Record<string, unknown>>;
  const { nonFinite = "refuse" } = fields;
  if (fields.type === "custom") return resolveCustom(fields, path);
  const type = checkType(`${path}.type`, fields.type);
  const settings = Object.entries(SETTINGS[type]);
  const clips = !VALUE_TYPES.has(type);
  const scheduled = "learningRate" in SETTINGS[type];
  const known = [
    "type",
    ...settings.map(([name]) => name),
    ...(scheduled ? ["schedule"] : []),
    ...(clips ? ["clipValue", "clipNorm"] : []),
    "nonFinite",
  ];
  checkFields(path, fields, known, type);
  return {
    type,
    ...Object.fromEntries(settings.map(([name, setting]) => [name, checkSetting(`${path}.${name}`, setting, fields[name])])),
    ...(scheduled ? { schedule: resolveSchedule(fields.schedule, `${path}.schedule`) } : {}),
    ...(clips
      ? { clipValue: checkClip(`${path}.clipValue`, fields.clipValue), clipNorm: checkClip(`${path}.clipNorm`, fields.clipNorm) }
      : {}),
    nonFinite: checkChoice(`${path}.nonFinite`, nonFinite, POLICIES),
  };
}

function checkType(path: string, type: unknown): OptimizerName {
  if (type === "none") throw badArgument(`${path}: "none" is now called "sum"`);
  return checkChoice(path, type, TYPES);
}

/**
 * An updater as it is, with its own settings. Throws BAD_ARGUMENT if something was added to it, which would be lost.
 */
function withDefaults(updater: PsUpdater, path: string): CustomOptimizer {
  const added = Object.keys(updater).find((field) => !UPDATER_FIELDS.includes(field));
  if (added === undefined) return updater.with();
  const how = `call ${updater.name}.with({ … }) first, as in { ...${updater.name}.with(), ${added}: … }`;
  throw badArgument(`${path}.${added}: the updater ${updater.name} itself has no such field; ${how}`);
}

/** Only the updater, on the servers, knows its settings. Its default rate is sgd's. */
function resolveCustom(fields: Readonly<Record<string, unknown>>, path: string): ResolvedOptimizer {
  checkFields(path, fields, CUSTOM_FIELDS, "custom");
  const { updater, version, learningRate, schedule, clipNorm, nonFinite = "refuse" } = fields;
  if (typeof updater !== "string" || !UPDATER_NAME.test(updater)) throw badField(`${path}.updater`, "the name of an updater", updater);
  if (!(version === undefined || (Number.isSafeInteger(version) && (version as number) >= 1)))
    throw badField(`${path}.version`, "a whole number from 1 up", version);
  const rate = checkSetting(`${path}.learningRate`, atLeast0(0.01), learningRate);
  return {
    ...{ type: "custom", updater, ...(version === undefined ? {} : { version: version as number }) },
    settings: settingsOf(`${path}.settings`, fields.settings ?? {}),
    ...{ learningRate: rate, schedule: resolveSchedule(schedule, `${path}.schedule`) },
    ...{ clipNorm: checkClip(`${path}.clipNorm`, clipNorm), nonFinite: checkChoice(`${path}.nonFinite`, nonFinite, POLICIES) },
  };
}

/** In the order of their names: equal settings have equal JSON (OptimizerSpec.S1). */
function settingsOf(path: string, settings: unknown): UpdaterSettings {
  if (typeof settings !== "object" || settings === null) throw badField(path, "an object", settings);
  const given = Object.entries(settings).filter(([, value]) => value !== undefined);
  if (given.length > SETTINGS_MAX) throw badField(path, `at most ${SETTINGS_MAX} settings`, `${given.length} of them`);
  for (const [name, value] of given) {
    const isText = typeof value === "string" && value.length <= SETTING_LENGTH_MAX;
    if (!(isText || typeof value === "boolean" || Number.isFinite(value)))
      throw badField(`${path}.${name}`, `a finite number, a flag, or a text of at most ${SETTING_LENGTH_MAX} characters`, value);
  }
  return Object.fromEntries(given.sort(([one], [other]) => (one < other ? -1 : 1))) as UpdaterSettings;
}

/**
 * An optimizer as the wire and checkpoints have it: always an object, whose type may be "none", which is "sum". Throws
 * BAD_ARGUMENT.
 */
export function decodeOptimizer(value: unknown, path: string): ResolvedOptimizer {
  if (typeof value !== "object" || value === null) throw badField(path, "an object with a type", value);
  const spec = "type" in value && value.type === "none" ? { ...value, type: "sum" } : value;
  return resolveOptimizer(spec as OptimizerSpec, path);
}

/** Whether pushes are values, not gradients: a 0 then matters, and two updates are not the same as their sum. */
export function takesValues({ type }: ResolvedOptimizer): boolean {
  return VALUE_TYPES.has(type);
}

/** How several values for one element become one, as the kernels' number; undefined for gradients, which add up. */
export function mergeOf({ type }: ResolvedOptimizer): MergeNumber | undefined {
  return type === "assign" || type === "min" || type === "max" ? OPTIMIZER[type] : undefined;
}

/** OptimizerSpec.S3 */
export function isFloat32(value: number): boolean {
  return Number.isFinite(Math.fround(value));
}

function checkSetting(path: string, setting: Setting, value: unknown): number {
  if (value === undefined) return setting.initial;
  const isWide = typeof value === "number" && Number.isFinite(value) && setting.accepts(value);
  if (isWide && isFloat32(value) && setting.accepts(Math.fround(value))) return value; // OptimizerSpec.S3
  throw badField(path, isWide ? `${setting.expected}, in float32 too` : setting.expected, value);
}

function checkClip(path: string, value: unknown): number | null {
  if (value === undefined || value === null) return null;
  if (typeof value === "number" && Math.fround(value) > 0 && isFloat32(value)) return value;
  throw badField(path, "a number above 0, or null", value);
}

/** The kernels that check, the policy, and the counts. */
type NonFiniteLook = {
  readonly arena: Arena;
  readonly kernels: OptimizerKernels;
  readonly policy: ResolvedOptimizer["nonFinite"];
  readonly counts: NonFiniteCounts;
};

/**
 * For a gradient that is not finite: throws NOT_FINITE for "refuse", returns undefined for "skip". For "zero" it sets
 * NaN and infinities to 0 and returns the greatest magnitude left.
 */
export function admitNotFinite(look: NonFiniteLook, gradients: number, floatCount: number): number | undefined {
  const { arena, kernels, policy, counts } = look;
  if (policy === "zero") {
    counts.zeroedElements += kernels.zeroNonFinite(gradients, floatCount);
    return kernels.greatestMagnitude(gradients, floatCount);
  }
  if (policy === "skip") {
    counts.skippedPushes++;
    return undefined;
  }
  const index = kernels.checkFinite(gradients, floatCount);
  counts.refusedPushes++;
  const value = arena.floats[gradients / 4 + index]!;
  throw new WeighbridgeError("NOT_FINITE", `element ${index} of ${floatCount} pushed is ${value}: expected finite numbers`);
}
