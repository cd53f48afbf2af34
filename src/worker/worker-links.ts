// worker-links — the links of a worker's parameters that carry less: one for all calls to a parameter, so that what
// top-k keeps for later is in one place however often the parameter is named.

import { simdCodecKernels } from "../kernel/codec-kernels.ts";
import { type ParameterSpec, specDifferences } from "../store/parameter-spec.ts";
import { rowWords } from "../store/row-types/row-type-spec.ts";
import { TensorShape } from "../store/tensor-shape.ts";
import type { GeneralCompression } from "../wire/codecs/general-compression.ts";
import { compressionOf } from "../wire/codecs/link-encoding.ts";
import type { CodecContext } from "../wire/codecs/value-codec.ts";
import type { FunctionClient } from "./function-client.ts";
import { KeptGradients } from "./kept-gradients.ts";
import { LinkCalls, type LinkCallsOptions, ServerKeyLists } from "./link-calls.ts";
import { LinkPayloads } from "./link-payloads.ts";
import type { ParameterHandle } from "./parameter-handle.ts";
import type { RowPlanner } from "./router/row-plan.ts";

export type WorkerLinksOptions = {
  readonly functions: FunctionClient;
  /** Its arena is where values are encoded. */
  readonly planner: RowPlanner;
  /** What this worker can compress with, if it can. */
  readonly compression: GeneralCompression | undefined;
};

type KnownLink = {
  readonly spec: ParameterSpec;
  readonly calls: LinkCalls;
  readonly parameter: number;
  readonly close: () => void;
};

export class WorkerLinks {
  readonly #options: WorkerLinksOptions;
  readonly #codecs: CodecContext;
  readonly #keyLists: ServerKeyLists;
  readonly #links = new Map<string, KnownLink>();

  constructor(options: WorkerLinksOptions) {
    const { arena, kernels } = options.planner;
    this.#options = options;
    this.#codecs = { arena, kernels, codecKernels: simdCodecKernels(arena) };
    this.#keyLists = new ServerKeyLists(options.functions);
  }

  /** Throws UNSUPPORTED for a link that this node cannot serve: before anything is made anywhere. */
  check({ name, link }: ParameterSpec): void {
    if (link !== undefined) compressionOf(link, this.#options.compression, name);
  }

  /** The calls of a parameter whose link carries less; undefined for one whose keys and values travel as they are. */
  of(spec: ParameterSpec, { parameter }: ParameterHandle): LinkCalls | undefined {
    const { link, name } = spec;
    const known = this.#links.get(name);
    if (known?.parameter === parameter && specDifferences(known.spec, spec).length === 0) return known.calls;
    known?.close(); // cleared, and made anew in another way
    this.#links.delete(name);
    if (link === undefined) return undefined;
    const codecs = this.#codecs;
    const payloads = new LinkPayloads(codecs, link, compressionOf(link, this.#options.compression, name));
    const kept = payloads.hasResidual ? new KeptGradients(codecs, payloads) : undefined;
    const { functions } = this.#options;
    const calls = new LinkCalls({ functions, codecs, payloads, keyLists: this.#keyLists, link, kept, shapeOf: shapesOf(spec) });
    const close = (): void => {
      kept?.close();
      payloads.close();
    };
    this.#links.set(name, { spec, calls, parameter, close });
    return calls;
  }

  /** Servers took this worker for dead. */
  forgetKeyLists(): void {
    this.#keyLists.clear();
  }
}

/** In which rows the values of a parameter are encoded. */
function shapesOf(spec: ParameterSpec): LinkCallsOptions["shapeOf"] {
  if (spec.kind === "table") return (_, __, valueCount) => ({ rowCount: valueCount / rowWords(spec), width: rowWords(spec) });
  const shape = new TensorShape(spec.shape);
  return (request, direction, valueCount) => {
    const rows = (request.rows ?? (direction === "push" ? request.pushRows : request.pullRows)) as Uint32Array;
    const width = rows.length > 0 ? shape.width : shape.codedWidth(request.block as number);
    return { rowCount: valueCount / width, width };
  };
}
