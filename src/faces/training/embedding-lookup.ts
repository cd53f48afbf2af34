// embedding-lookup — a table of vectors chosen by ids (MindSpore: nn.EmbeddingLookup), as the first stage of a network.
// A sparse one works on a RowSource that is attached to it: rows in this process, on servers, or in a cache. One that
// is not sparse holds its whole table as a parameter like any other.
//
// Invariants:
//   EmbeddingLookup.E1. An id outside the table, below 0 or past its end, reads as zeros and learns nothing; so do NaN
//       and infinities. A fraction is refused.
//   EmbeddingLookup.E2. Options that contradict each other are refused when the lookup is created.

import { assert } from "../../base/assert.ts";
import type { WaitOptions } from "../../base/deferred.ts";
import { badArgument, showValue, type WeighbridgeError } from "../../base/errors.ts";
import { type Complete, checkOptions, checkWaitOptions } from "../../base/known-options.ts";
import { didYouMean } from "../../base/nearest-name.ts";
import type { Activations } from "../../nn/activations.ts";
import { checkCount, type GradientReady } from "../../nn/layer.ts";
import { Embedding, isFraction } from "../../nn/layers/embedding.ts";
import { SlotEmbedding } from "../../nn/layers/slot-embedding.ts";
import type { Parameter, ServerTarget } from "../../nn/parameter.ts";
import type { Workspace } from "../../nn/workspace.ts";
import type { InitializerSpec } from "../../store/initializers/initializer-spec.ts";
import { inOurNames } from "./mindspore-names.ts";
import type { Stage } from "./network.ts";
import type { RowSource } from "./row-source.ts";

/** How a lookup is made. */
export type EmbeddingLookupOptions = {
  /** The name of the stage; its table is called `NAME.weight`. */
  readonly name: string;
  /** Rows of the table. */
  readonly vocabSize: number;
  /** Elements of a row (MindSpore: embedding_size). */
  readonly dim: number;
  /** How many ids of a sample the lookup reads. */
  readonly idsPerSample: number;
  /** The most samples that a batch may have. */
  readonly sampleCountMax: number;
  /** The first of a sample's ids that belongs to this lookup, which reads `idsPerSample` of them. Defaults to 0. */
  readonly idsFrom?: number | undefined;
  /** How a sample's rows are combined: all side by side, the default, or their sum. */
  readonly combine?: "concat" | "sum" | undefined;
  /** Where rows are looked up: on the servers, or in this worker's memory. "CPU" by default, as in MindSpore. */
  readonly target?: "CPU" | "DEVICE" | undefined;
  /** True, the default: a step reads and updates only the rows of its batch. False: the whole table. */
  readonly sparse?: boolean | undefined;
  /** How many rows this worker caches in its memory; 0, the default: none. For target "DEVICE". */
  readonly vocabCacheSize?: number | undefined;
  /** normal with a standard deviation of 0.01 by default. */
  readonly initializer?: InitializerSpec | undefined;
};

/** The ids of a batch: `idsPerSample` of each sample, one sample after the other. */
export type IdBatch = { readonly ids: Float64Array; readonly sampleCount: number; readonly idsPerSample: number };

const NAMES: readonly (keyof EmbeddingLookupOptions)[] = [
  "name",
  "vocabSize",
  "dim",
  "idsPerSample",
  "sampleCountMax",
  "idsFrom",
  "combine",
  "target",
  "sparse",
  "vocabCacheSize",
  "initializer",
];

/** Looks rows of a table up, as the first stage of a network (MindSpore: EmbeddingLookup). */
export class EmbeddingLookup implements Stage {
  /** The name of the stage. */
  readonly name: string;
  /** What it was made with, defaults included. */
  readonly options: Complete<EmbeddingLookupOptions>;
  /** The table, if the lookup is not sparse; otherwise none. */
  readonly parameters: readonly Parameter[];
  /** None. */
  readonly statistics: readonly [] = [];
  /** The combined rows of each sample. */
  readonly output: Activations;
  /** Set while the rows live on servers (setParamPs). A table that is not sparse has it on its parameter. */
  serverTarget: ServerTarget | undefined;
  readonly #dense: Embedding | undefined;
  readonly #rows: SlotEmbedding | undefined;
  readonly #ids: Float64Array;
  #acquired: Float64Array;
  #slots: Int32Array = new Int32Array(0);
  #source: RowSource | undefined;

  constructor(workspace: Workspace, options: EmbeddingLookupOptions) {
    const resolved = resolve(options);
    const { name, dim: width, idsPerSample, sampleCountMax, combine, vocabSize, sparse, initializer } = resolved;
    this.name = name;
    this.options = resolved;
    this.#ids = new Float64Array(idsPerSample * sampleCountMax);
    this.#acquired = this.#ids.subarray(0, 0);
    const shared = { name, width, idsPerSample, sampleCountMax, combine };
    if (sparse) this.#rows = new SlotEmbedding(workspace, shared);
    else this.#dense = new Embedding(workspace, { ...shared, rowCount: vocabSize, outOfRange: "zero", initializer });
    this.parameters = this.#dense === undefined ? [] : [this.#dense.weight];
    this.output = (this.#dense ?? this.#rows)!.output;
  }

  /** Itself: the stage reads rows. */
  get lookup(): this {
    return this;
  }

  /** The name of its parameter, here and on servers. */
  get tableName(): string {
    return `${this.name}.weight`;
  }

  /** @internal */
  get source(): RowSource | undefined {
    return this.#source;
  }

  /** @internal Sets the source of the rows, for a sparse lookup only. */
  attach(source: RowSource): void {
    assert(this.#rows !== undefined && source.width === this.options.dim, `${this.name} takes a source of its own width`);
    this.#source = source;
  }

  /** @internal */
  detach(): void {
    this.#source = undefined;
  }

  /** @internal Names the ids of the next batch: a hint. */
  prefetch(batch: IdBatch): void {
    this.#source?.prefetch(this.#pick(batch, new Float64Array(this.#ids.length)));
  }

  /**
   * @internal Resolves when the rows of a batch have arrived. Throws BAD_ARGUMENT for an id that is no whole number
   * (EmbeddingLookup.E1).
   */
  async acquire(batch: IdBatch, wait: WaitOptions = {}): Promise<void> {
    checkWaitOptions(wait);
    this.#acquired = this.#pick(batch, this.#ids);
    if (this.#rows === undefined) return;
    if (this.#source === undefined) throw badArgument(`${this.name} has no rows yet: train or open its model`);
    this.#slots = await this.#source.acquire(this.#acquired, wait);
  }

  forward(): Activations {
    if (this.#dense !== undefined) return this.#dense.forward(this.#acquired);
    const { address, slotCount } = this.#source!;
    return this.#rows!.forward(this.#slots, { address, slotCount });
  }

  backward(outputGradient: Activations, ready: GradientReady): undefined {
    if (this.#dense !== undefined) this.#dense.backward(outputGradient, ready);
    else this.#rows!.backward(outputGradient);
    return undefined;
  }

  /** @internal Passes the gradients of the last `backward` to the source, which owns them until the promise settles. */
  async push(wait: WaitOptions = {}): Promise<void> {
    checkWaitOptions(wait);
    if (this.#rows === undefined || this.#source === undefined) return;
    await this.#source.push(this.#rows.touchedSlots, this.#rows.gradients, wait);
  }

  /** @internal After an `acquire` of no samples: takes part in the step all the same. */
  async pushNothing(wait: WaitOptions = {}): Promise<void> {
    checkWaitOptions(wait);
    await this.#source?.push(new Int32Array(0), new Float32Array(0), wait);
  }

  /** This lookup's ids of each sample. */
  #pick({ ids, sampleCount, idsPerSample: stride }: IdBatch, into: Float64Array): Float64Array {
    const { idsPerSample, idsFrom, name } = this.options;
    if (idsFrom + idsPerSample > stride) {
      throw badArgument(`${name} takes ids ${idsFrom} to ${idsFrom + idsPerSample - 1} of a sample, which has ${stride}`);
    }
    for (let i = 0; i < sampleCount; i++) {
      for (let j = 0; j < idsPerSample; j++) {
        const id = ids[i * stride + idsFrom + j]!;
        // EmbeddingLookup.E1
        if (isFraction(id)) throw bad(name, `id ${id}, number ${j} of sample ${i} of the batch, is no whole number`);
        into[i * idsPerSample + j] = id;
      }
    }
    return into.subarray(0, sampleCount * idsPerSample);
  }
}

/** EmbeddingLookup.E2 */
function resolve(given: EmbeddingLookupOptions): Complete<EmbeddingLookupOptions> {
  const what = "the options of an EmbeddingLookup";
  const options = inOurNames(given, what, { embeddingSize: "dim" }) as EmbeddingLookupOptions;
  checkOptions(options, NAMES, what);
  const { name, idsFrom = 0, combine = "concat", target = "CPU", sparse = true, vocabCacheSize = 0 } = options;
  if (typeof name !== "string" || name === "") throw badArgument("an EmbeddingLookup needs a name");
  checkCount(`${name}: vocabSize`, options.vocabSize);
  checkCount(`${name}: idsFrom`, idsFrom, 0);
  checkCount(`${name}: vocabCacheSize`, vocabCacheSize, 0);
  if (combine !== "concat" && combine !== "sum")
    throw bad(name, `combine is "concat" or "sum", not ${showValue(combine)}${didYouMean(combine, ["concat", "sum"])}`);
  if (target !== "CPU" && target !== "DEVICE")
    throw bad(name, `target is "CPU" or "DEVICE", not ${showValue(target)}${didYouMean(target, ["CPU", "DEVICE"])}`);
  if (!sparse && vocabCacheSize > 0) throw bad(name, "only rows of sparse lookups are cached: sparse is false and vocabCacheSize is not 0");
  if (target === "CPU" && vocabCacheSize > 0) throw bad(name, 'vocabCacheSize is for target "DEVICE": with "CPU" no rows are cached here');
  return {
    ...options,
    idsFrom,
    combine,
    target,
    sparse,
    vocabCacheSize,
    initializer: options.initializer ?? { type: "normal", std: 0.01 },
  };
}

function bad(name: string, what: string): WeighbridgeError {
  return badArgument(`${name}: ${what}`);
}
