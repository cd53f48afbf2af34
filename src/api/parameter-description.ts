// parameter-description — what a user reads of a parameter that is there, in the words in which parameters are made.
// Servers and the wire have words of their own (store/parameter-spec.ts); they are translated here alone.

import type { RowElement } from "../kernel/row-element.ts";
import { type Consistency, writtenConsistency } from "../store/consistency.ts";
import type { InitializerSpec } from "../store/initializers/initializer-spec.ts";
import type { ParameterSpec } from "../store/parameter-spec.ts";
import type { RowTypeSpec } from "../store/row-types/row-type-spec.ts";
import type { OptimizerSpec } from "../store/updaters/optimizer-spec.ts";
import type { LinkEncoding } from "../wire/codecs/link-encoding.ts";

/** What tensors and embeddings have in common. Every default is filled in. */
export interface CommonDescription {
  /** Its name in the job. */
  readonly name: string;
  /** How its elements begin. */
  readonly init: InitializerSpec;
  /** What the servers do with a push. */
  readonly optimizer: OptimizerSpec;
  /** How fresh reads are, and when updates count. */
  readonly consistency: Consistency;
  /** What its links carry; undefined: values and keys without encoding. */
  readonly link: LinkEncoding | undefined;
}

/** A tensor of the job, as `session.parameters()` tells of it. */
export interface TensorDescription extends CommonDescription {
  readonly kind: "tensor";
  /** Its sizes. */
  readonly shape: readonly number[];
}

/** An embedding of the job, as `session.parameters()` tells of it. */
export interface EmbeddingDescription extends CommonDescription {
  readonly kind: "embedding";
  /** Elements of a row; what else a row type of one's own makes of it. */
  readonly dim: number;
  /** What rows are made of. */
  readonly dtype: RowElement | RowTypeDescription;
  /** A table of fixed size has keys below this; undefined: every u64 is one. */
  readonly rows: number | undefined;
  /** Whether the updates of each row are counted, for caches with a bound. */
  readonly versions: boolean;
}

/** A row type that psRowType() made. */
export type RowTypeDescription = {
  /** Names it within a server. */
  readonly name: string;
  /** Rises with every change of it. */
  readonly version: number;
  /** What the elements of its rows are. */
  readonly dtype: RowElement;
  /** How many elements a row of this `dim` has. */
  readonly elements: number;
};

/** A parameter of the job: `kind` says whether it is a tensor or an embedding. */
export type ParameterDescription = TensorDescription | EmbeddingDescription;

/** A parameter in the words of its options. */
export function describeParameter(spec: ParameterSpec): ParameterDescription {
  const { name, initializer: init, link } = spec;
  const optimizer = spec.optimizer as OptimizerSpec; // with all defaults
  const common: CommonDescription = { name, init, optimizer, consistency: writtenConsistency(spec), link };
  if (spec.kind === "tensor") return { kind: "tensor", shape: spec.shape, ...common };
  const { width: dim, rows, versions, rowType } = spec;
  return { kind: "embedding", dim, dtype: dtypeOf(rowType), rows, versions, ...common };
}

function dtypeOf(rowType: RowTypeSpec | undefined): RowElement | RowTypeDescription {
  if (typeof rowType !== "object") return rowType ?? "f32";
  const { name, version, element: dtype, elements } = rowType;
  return { name, version, dtype, elements };
}
