// parameter-options — checks the options of a tensor or an embedding, and turns them into the spec that all nodes
// share. Sends nothing.

import type { WaitOptions } from "../base/deferred.ts";
import { badArgument, showValue } from "../base/errors.ts";
import { checkWaitOptions, WAIT_NAMES } from "../base/known-options.ts";
import type { RowElement } from "../kernel/row-element.ts";
import { type Consistency, engineConsistency } from "../store/consistency.ts";
import { type InitializerSpec, resolveInitializer } from "../store/initializers/initializer-spec.ts";
import { checkCombination, KIND_WORDS, problemWithName, type TableSpec, type TensorSpec, type Wanted } from "../store/parameter-spec.ts";
import type { PsRowType } from "../store/row-types/ps-row-type.ts";
import { checkDtype, checkRowType, type RowTypeSpec, rowTypeSpec, tableOptimizers } from "../store/row-types/row-type-spec.ts";
import { type OptimizerName, type OptimizerSpec, optimizerMissing, resolveOptimizer } from "../store/updaters/optimizer-spec.ts";
import type { PsUpdater } from "../store/updaters/ps-updater.ts";
import { type LinkOptions, linkEncoding } from "../wire/codecs/link-encoding.ts";

/** What describes tensors and embeddings alike. */
export interface CommonParameterOptions {
  /** How elements begin. Defaults to zeros. */
  readonly init?: InitializerSpec | undefined;
  /**
   * What the servers do with a push: `"sum"` adds it, `"adam"` takes it as a gradient, and so on. A bare name stands
   * for the defaults of that optimizer. There is no default.
   */
  readonly optimizer: OptimizerName | OptimizerSpec | PsUpdater;
  /** Defaults to "asp". */
  readonly consistency?: Consistency | undefined;
  /** What links carry instead of values and keys as they are. Left out, those. */
  readonly link?: LinkOptions | undefined;
}

/** Describes a tensor that is made, or opened as it was made; and how long to wait for that. */
export interface TensorOptions extends CommonParameterOptions, WaitOptions {
  /** Its sizes. Initializers read them as [out, in, …]. */
  readonly shape: readonly number[];
}

/** What rows of an embedding are made of: one of our types, or what psRowType() made. */
export type DtypeOption = RowElement | PsRowType;

/** The elements of rows of such a type. */
export type ElementOf<T extends DtypeOption> = T extends RowElement ? T : T extends PsRowType<infer E> ? E : never;

/** Opens a tensor as it was made. */
export type OpenTensorOptions = WaitOptions & {
  /** Not given: it is that of the tensor. */
  readonly shape?: never;
};

/** Opens an embedding as it was made; with a `dtype` only one whose rows are made of that. */
export type OpenEmbeddingOptions<T extends DtypeOption | undefined = undefined> = WaitOptions & {
  /** Not given: it is that of the table. */
  readonly dim?: never;
  /** What its rows must be made of. Left out, whatever they are. */
  readonly dtype?: T | undefined;
};

/** Describes an embedding that is made, or opened as it was made; and how long to wait for that. */
export interface EmbeddingOptions<T extends DtypeOption = "f32"> extends CommonParameterOptions, WaitOptions {
  /** Elements of a row; what else a row type of one's own makes of it. */
  readonly dim: number;
  /**
   * What rows are made of. Defaults to "f32"; others have no versions and no caches, and "packed" is all that their
   * link may be.
   */
  readonly dtype?: T | undefined;
  /** A table of fixed size: keys are below this, and others are errors. Left out, every u64 is a key. */
  readonly rows?: number | undefined;
  /** Counts the updates of each row, as caches with a bound need it. Defaults to false. */
  readonly versions?: boolean | undefined;
}

const COMMON_OPTIONS: readonly string[] = ["init", "optimizer", "consistency", "link", ...WAIT_NAMES];
const TENSOR_OPTIONS: readonly string[] = ["shape", ...COMMON_OPTIONS];
const EMBEDDING_OPTIONS: readonly string[] = ["dim", "rows", "versions", "dtype", ...COMMON_OPTIONS];
/** These alone describe nothing: what is there is opened. */
const OPENING: readonly string[] = ["dtype", ...WAIT_NAMES];

/** What to make or to open. Throws BAD_ARGUMENT. */
export function wantedTensor(name: string, options: TensorOptions | OpenTensorOptions): Wanted<TensorSpec> {
  checkName(name);
  checkWaitOptions(options, TENSOR_OPTIONS, `the options of tensor ${name}`);
  return describesNothing(options) ? { kind: "tensor", name } : tensorSpec(name, options as TensorOptions);
}

/** As `wantedTensor`. */
export function wantedEmbedding(
  name: string,
  options: EmbeddingOptions<DtypeOption> | OpenEmbeddingOptions<DtypeOption | undefined>,
): Wanted<TableSpec> {
  checkName(name);
  checkWaitOptions(options, EMBEDDING_OPTIONS, `the options of embedding ${name}`);
  if (!describesNothing(options)) return embeddingSpec(name, options as EmbeddingOptions<DtypeOption>);
  checkDtype(options.dtype, `embedding ${name}`);
  return { kind: "table", name };
}

function describesNothing(options: object): boolean {
  return Object.keys(options).every((name) => OPENING.includes(name));
}

/** Throws BAD_ARGUMENT. */
export function tensorSpec(name: string, options: TensorOptions): TensorSpec {
  const { shape } = options;
  if (!Array.isArray(shape)) throw badArgument(`tensor ${name} needs a shape: a list of whole numbers`);
  const wrong = shape.findIndex((size: unknown) => !Number.isSafeInteger(size));
  if (wrong >= 0) throw badArgument(`tensor ${name} has a shape of whole numbers, not ${showValue(shape)}`);
  return { kind: "tensor", name, shape, ...commonSpec(name, options, "tensor") };
}

/** Throws BAD_ARGUMENT. */
export function embeddingSpec(name: string, options: EmbeddingOptions<DtypeOption>): TableSpec {
  const { dim, rows, versions = false } = options;
  if (!(Number.isSafeInteger(dim) && dim >= 1)) {
    throw badArgument(`embedding ${name} needs a dim, the elements of a row: a whole number from 1 up, not ${showValue(dim)}`);
  }
  if (!(rows === undefined || (Number.isSafeInteger(rows) && rows >= 1)))
    throw badArgument(`embedding ${name}: rows is a whole number from 1 up, or left out, not ${showValue(rows)}`);
  if (typeof versions !== "boolean") throw badArgument(`embedding ${name}: versions is true or false, not ${showValue(versions)}`);
  const rowType = rowTypeSpec(options.dtype, dim, `embedding ${name}`);
  const spec: TableSpec = {
    kind: "table",
    name,
    width: dim,
    rows,
    versions,
    ...(rowType === undefined ? {} : { rowType }),
    ...commonSpec(name, options, "table", rowType),
  };
  checkRowType(spec);
  return spec;
}

/** Throws BAD_ARGUMENT. */
export function checkName(name: string): void {
  const problem = typeof name === "string" ? problemWithName(name) : `a parameter's name is a string, not ${showValue(name)}`;
  if (problem !== undefined) throw badArgument(problem);
}

function commonSpec(
  name: string,
  options: CommonParameterOptions,
  kind: "tensor" | "table",
  rowType?: RowTypeSpec,
): Omit<TensorSpec, "kind" | "name" | "shape"> {
  const { init = { type: "constant", value: 0 }, optimizer: chosen, consistency = "asp", link: choices } = options;
  if (chosen === undefined) throw optimizerMissing(`${KIND_WORDS[kind]} ${name}`, tableOptimizers(rowType));
  const optimizer = resolveOptimizer(chosen);
  const link = choices === undefined ? undefined : linkEncoding(kind, choices);
  const spec = { initializer: resolveInitializer(init), optimizer, ...engineConsistency(consistency), link };
  checkCombination({ name, ...spec });
  return spec;
}
