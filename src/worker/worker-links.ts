// worker-links — the encoded side of a worker's parameters: what their links need, one for all calls to a parameter, so that what top-k keeps
// for later is in one place however often the parameter is named.

import type { WaitOptions } from "../base/deferred.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import { simdCodecKernels } from "../kernel/codec-kernels.ts";
import { type ParameterSpec, specDifferences, type TableSpec, type TensorSpec } from "../store/parameter-spec.ts";
import { TensorShape } from "../store/tensor-shape.ts";
import type { GeneralCompression } from "../wire/codecs/general-compression.ts";
import type { LinkEncoding } from "../wire/codecs/link-encoding.ts";
import { compressionOf } from "../wire/codecs/link-encoding.ts";
import type { CodecContext, ValueShape } from "../wire/codecs/value-codec.ts";
import { EncodedTensor } from "./encoded-tensor.ts";
import { allEnded, type FunctionClient } from "./function-client.ts";
import type { HeldParameter } from "./held-parameter.ts";
import { LinkCalls, ServerKeyLists } from "./link-calls.ts";
import { LinkPayloads } from "./link-payloads.ts";
import type { RowPlanner } from "./router/row-plan.ts";

export type WorkerLinksOptions = {
  readonly functions: FunctionClient;
  /** Its arena is where values are encoded. */
  readonly planner: RowPlanner;
  /** What this worker can compress with, if it can. */
  readonly compression: GeneralCompression | undefined;
};

export class WorkerLinks {
  readonly #options: WorkerLinksOptions;
  readonly #codecs: CodecContext;
  readonly #keyLists: ServerKeyLists;
  /** `held` by the handle that was opened last. */
  readonly #tensors = new Map<string, { readonly spec: TensorSpec; readonly tensor: EncodedTensor; held: HeldParameter }>();
  readonly #tables = new Map<
    string,
    { readonly spec: TableSpec; readonly parameter: number; readonly calls: LinkCalls; readonly payloads: LinkPayloads }
  >();

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

  /** Undefined for a tensor whose values travel as they are. */
  tensor(spec: TensorSpec, held: HeldParameter): EncodedTensor | undefined {
    const { link, name } = spec;
    const known = this.#tensors.get(name);
    if (known !== undefined && known.held.parameter === held.parameter && specDifferences(known.spec, spec).length === 0) {
      known.held = held;
      return known.tensor;
    }
    known?.tensor.close(); // cleared, and made anew in another way
    this.#tensors.delete(name);
    if (link === undefined) return undefined;
    const { functions } = this.#options;
    const { parameter } = held;
    const payloads = this.#payloads(link, name);
    const shape = new TensorShape(spec.shape);
    const tensor = new EncodedTensor({ functions, codecs: this.#codecs, payloads, name, parameter, shape, link });
    this.#tensors.set(name, { spec, tensor, held });
    return tensor;
  }

  /** Undefined for a table whose keys and values travel as they are. */
  table(spec: TableSpec, { parameter }: HeldParameter): LinkCalls | undefined {
    const { link, name, width } = spec;
    const known = this.#tables.get(name);
    if (known?.parameter === parameter && specDifferences(known.spec, spec).length === 0) return known.calls;
    known?.payloads.close();
    this.#tables.delete(name);
    if (link === undefined) return undefined;
    const { functions } = this.#options;
    const payloads = this.#payloads(link, name);
    const shapeOf = (_: unknown, __: unknown, valueCount: number): ValueShape => ({ rowCount: valueCount / width, width });
    const calls = new LinkCalls({ functions, codecs: this.#codecs, payloads, keyLists: this.#keyLists, link, shapeOf });
    this.#tables.set(name, { spec, parameter, calls, payloads });
    return calls;
  }

  /** Servers took this worker for dead. */
  forgetKeyLists(): void {
    this.#keyLists.clear();
  }

  /** Sends what top-k has kept of all tensors. Of one that was cleared, or lost with its server, nothing is left to send to. */
  async flush(clock: number, wait: WaitOptions): Promise<void> {
    await allEnded(
      [...this.#tensors.values()].map(({ tensor, held }) =>
        tensor.flush({ clock, ...wait, subject: held }).catch((thrown: unknown) => {
          if (!isWeighbridgeError(thrown, "UNKNOWN_PARAMETER")) throw thrown;
        }),
      ),
    );
  }

  #payloads(link: LinkEncoding, name: string): LinkPayloads {
    return new LinkPayloads(this.#codecs, link, compressionOf(link, this.#options.compression, name));
  }
}
