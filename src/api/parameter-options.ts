// parameter-options — checks the options of a tensor or an embedding, and turns them into the spec that all nodes
// share. Sends nothing.

import { badArgument, showValue } from "../base/errors.ts";
import { checkOptions } from "../base/known-options.ts";
import type { RowElement } from "../kernel/row-element.ts";
import { type Consistency, engineConsistency } from "../store/consistency.ts";
import { type InitializerSpec, resolveInitializer } from "../store/initializers/initializer-spec.ts";
import { checkCombination, type ParameterSpec, type TableSpec, type TensorSpec } from "../store/parameter-spec.ts";
import type { PsRowType } from "../store/row-types/ps-row-type.ts";
import { checkRowType, rowTypeSpec } from "../store/row-types/row-type-spec.ts";
import { type OptimizerSpec, resolveOptimizer } from "../store/updaters/optimizer-spec.ts";
import type { PsUpdater } from "../store/updaters/ps-updater.ts";
import { type LinkEncoding, linkEncoding } from "../wire/codecs/link-encoding.ts";

type CommonOptions = {
  /** How elements begin. Defaults to zeros. */
  readonly init?: InitializerSpec;
  /** What the servers do with a gradient: one of ours, or an updater of the user's own. Defaults to adding it. */
  readonly optimizer?: OptimizerSpec | PsUpdater;
  /** Defaults to "asp". */
  readonly consistency?: Consistency;
  /** What links carry instead of values and keys as they are. Left out, those. */
  readonly link?: Partial<LinkEncoding>;
};

export type TensorOptions = CommonOptions & { readonly shape: readonly number[] };

/** What rows of an embedding are: one of our types, or a user's own. */
export type RowTypeOption = RowElement | PsRowType;

/** What rows of such a type are made of. */
export type ElementOf<T extends RowTypeOption> = T extends RowElement ? T : T extends PsRowType<infer E> ? E : never;

export type EmbeddingOptions<T extends RowTypeOption = "f32"> = CommonOptions & {
  /** Elements of a row; what else a row type of one's own makes of it. */
  readonly dim: number;
  /**
   * What rows are. Defaults to "f32"; others have no versions and no caches, and "packed" is all that their link may
   * be.
   */
  readonly rowType?: T;
  /** A table of fixed size: keys are below this, and others are errors. Left out, every u64 is a key. */
  readonly rows?: number;
  /** Counts the updates of each row, as caches with a bound need it. Defaults to false. */
  readonly versions?: boolean;
};

const COMMON_OPTIONS: readonly string[] = ["init", "optimizer", "consistency", "link"];

/** Whatever parameter of this kind has this name. Throws BAD_ARGUMENT. */
export function whateverIs<K extends ParameterSpec["kind"]>(kind: K, name: string): { readonly kind: K; readonly name: string } {
  checkName(name);
  return { kind, name };
}

/** Throws BAD_ARGUMENT. */
export function tensorSpec(name: string, options: TensorOptions): TensorSpec {
  checkName(name);
  checkOptions(options, ["shape", ...COMMON_OPTIONS], `the options of tensor ${name}`);
  const { shape } = options;
  if (!Array.isArray(shape)) throw badArgument(`tensor ${name} needs a shape: a list of whole numbers`);
  const wrong = shape.findIndex((size: unknown) => !Number.isSafeInteger(size));
  if (wrong >= 0) throw badArgument(`tensor ${name} has a shape of whole numbers, not ${showValue(shape)}`);
  return { kind: "tensor", name, shape, ...commonSpec(name, options, "tensor") };
}

/** Throws BAD_ARGUMENT. */
export function embeddingSpec(name: string, options: EmbeddingOptions<RowTypeOption>): TableSpec {
  checkName(name);
  checkOptions(options, ["dim", "rows", "versions", "rowType", ...COMMON_OPTIONS], `the options of embedding ${name}`);
  const { dim, rows, versions = false } = options;
  if (!(Number.isSafeInteger(dim) && dim >= 1)) {
    throw badArgument(`embedding ${name} needs a dim, the elements of a row: a whole number from 1 up, not ${showValue(dim)}`);
  }
  if (!(rows === undefined || (Number.isSafeInteger(rows) && rows >= 1)))
    throw badArgument(`embedding ${name}: rows is a whole number from 1 up, or left out, not ${showValue(rows)}`);
  if (typeof versions !== "boolean") throw badArgument(`embedding ${name}: versions is true or false, not ${showValue(versions)}`);
  const rowType = rowTypeSpec(options.rowType, dim, `embedding ${name}`);
  const spec: TableSpec = {
    kind: "table",
    name,
    width: dim,
    rows,
    versions,
    ...(rowType === undefined ? {} : { rowType }),
    ...commonSpec(name, options, "table"),
  };
  checkRowType(spec);
  return spec;
}

function checkName(name: string): void {
  if (typeof name !== "string") throw badArgument(`a parameter's name is a string, not ${showValue(name)}`);
}

function commonSpec(name: string, options: CommonOptions, kind: "tensor" | "table"): Omit<TensorSpec, "kind" | "name" | "shape"> {
  const { init = { type: "constant", value: 0 }, optimizer: chosen = { type: "sum" }, consistency = "asp", link: choices } = options;
  const optimizer = resolveOptimizer(chosen);
  const link = choices === undefined ? undefined : linkEncoding(kind, choices);
  const spec = { initializer: resolveInitializer(init), optimizer, ...engineConsistency(consistency), link };
  checkCombination({ name, ...spec });
  return spec;
}
