// tensor-settings — Hetu's numbers for the kind of a tensor, its first values and its optimizer, and what they mean
// here.
//
//   ParamType   0 kParam: dense, one dimension   1 kParam2D: rows × width
//               2 kCacheTable: rows × width by key, rows count their updates
//   InitType    0 constant(a)   1 uniform [a, b)   2 normal(mean a, std b)   3 truncated normal, within 2 std
//   OptType     0 SGD(lr)   1 Momentum(lr, momentum)   2 Nesterov(lr, momentum)   3 AdaGrad(lr, initial, epsilon)
//               4 Adam(lr, beta1, beta2, epsilon)   5 None: what is pushed is added
//
// Arguments that are left out have the defaults of Hetu's Python classes.

import { badArgument, showValue, type WeighbridgeError } from "../../base/errors.ts";
import { type Complete, checkOptions } from "../../base/known-options.ts";
import type { InitializerSpec } from "../../store/initializers/initializer-spec.ts";
import type { OptimizerSpec } from "../../store/updaters/optimizer-spec.ts";

/** Hetu's numbers of parameter types. */
export const ParamType = { kParam: 0, kParam2D: 1, kCacheTable: 2 } as const;
/** Hetu's number of a parameter type. */
export type ParamType = (typeof ParamType)[keyof typeof ParamType];

/** Hetu's numbers of initializers. */
export const InitType = { constant: 0, uniform: 1, normal: 2, truncatedNormal: 3 } as const;
/** Hetu's number of an initializer. */
export type InitType = (typeof InitType)[keyof typeof InitType];

/** Hetu's numbers of optimizers. */
export const OptType = { SGD: 0, Momentum: 1, Nesterov: 2, AdaGrad: 3, Adam: 4, None: 5 } as const;
/** Hetu's number of an optimizer. */
export type OptType = (typeof OptType)[keyof typeof OptType];

/** The arguments of InitTensor after the name. */
export type TensorSettings = {
  /** Defaults to kParam. */
  readonly paramType?: ParamType | undefined;
  /** Elements of a kParam, rows of the others. */
  readonly length: number;
  /** Elements of a row; 1 for a kParam. */
  readonly width?: number | undefined;
  /** Hetu's number, with `a`, `b` and `seed`; or an initializer of ours. Defaults to constant. */
  readonly init?: InitType | InitializerSpec | undefined;
  readonly a?: number | undefined;
  readonly b?: number | undefined;
  readonly seed?: number | undefined;
  /** Hetu's number, with `optArgs`; or an optimizer of ours. Defaults to None. */
  readonly opt?: OptType | OptimizerSpec | undefined;
  readonly optArgs?: ArrayLike<number> | undefined;
};

const SETTING_NAMES: readonly string[] = ["paramType", "length", "width", "init", "a", "b", "seed", "opt", "optArgs"];

/** By number: the optimizer with the defaults of its arguments, in Hetu's order. */
const OPTIMIZERS: readonly ({ readonly type: OptimizerSpec["type"] } & Readonly<Record<string, number | string>>)[] = [
  { type: "sgd", learningRate: 0.01 },
  { type: "momentum", learningRate: 0.01, momentum: 0.9 },
  { type: "nesterov", learningRate: 0.01, momentum: 0.9 },
  { type: "adagrad", learningRate: 0.01, initialAccumulator: 0, epsilon: 1e-7 },
  { type: "adam", learningRate: 0.001, beta1: 0.9, beta2: 0.999, epsilon: 1e-8 },
  { type: "sum" },
];

/** The optimizer of a tensor. Throws BAD_ARGUMENT for an unknown number, and for more arguments than it has. */
export function optimizerOf({ opt = OptType.None, optArgs = [] }: TensorSettings): OptimizerSpec {
  if (!Array.isArray(optArgs) && !ArrayBuffer.isView(optArgs)) throw bad(`optArgs are a list of numbers, not ${showValue(optArgs)}`);
  if (typeof opt === "object") {
    if (optArgs.length > 0) throw bad("optArgs belong to Hetu's numbers; an optimizer of ours has them in its own fields");
    return opt;
  }
  const known = typeof opt === "number" ? OPTIMIZERS[opt] : undefined;
  if (known === undefined) throw bad(`opt is 0 to ${OPTIMIZERS.length - 1}, or an optimizer of ours, not ${showValue(opt)}`);
  const { type, ...defaults } = known;
  const names = Object.keys(defaults);
  if (optArgs.length > names.length) {
    const takes = names.join(", ") || "no arguments";
    throw bad(`optimizer ${opt} (${type}) takes ${takes}, not ${optArgs.length} numbers; AdamW and others are optimizers of ours`);
  }
  return { type, ...Object.fromEntries(names.map((name, i) => [name, optArgs[i] ?? defaults[name]])) } as OptimizerSpec;
}

/** The initializer of a tensor. Throws BAD_ARGUMENT for an unknown number. */
export function initializerOf({ init = InitType.constant, a = 0, b = 1, seed = 0 }: TensorSettings): InitializerSpec {
  if (typeof init === "object") return init;
  switch (init) {
    case InitType.constant:
      return { type: "constant", value: a };
    case InitType.uniform:
      return { type: "uniform", low: a, high: b, seed };
    case InitType.normal:
      return { type: "normal", mean: a, std: b, seed };
    case InitType.truncatedNormal:
      return { type: "truncatedNormal", mean: a, std: b, seed };
    default:
      throw bad(`init is 0 to 3, or an initializer of ours, not ${showValue(init)}`);
  }
}

/** Type, length and width. Throws BAD_ARGUMENT if one is wrong, and for a setting that does not exist. */
export function dimensionsOf(settings: TensorSettings): Complete<Pick<TensorSettings, "paramType" | "length" | "width">> {
  checkOptions(settings, SETTING_NAMES, "the settings of a tensor");
  const { paramType = ParamType.kParam, length, width = 1 } = settings;
  if (!Object.values(ParamType).includes(paramType)) throw bad(`paramType is 0, 1 or 2, not ${showValue(paramType)}`);
  for (const [what, size] of Object.entries({ length, width })) {
    if (!(Number.isSafeInteger(size) && size >= 1)) throw bad(`${what} is a whole number from 1 up, not ${showValue(size)}`);
  }
  if (paramType === ParamType.kParam && width !== 1) throw bad(`a kParam has one dimension; width ${width} makes it a kParam2D`);
  return { paramType, length, width };
}

function bad(text: string): WeighbridgeError {
  return badArgument(`initTensor: ${text}`);
}
