// parameter-host — what the parameters of a server share: its memory and kernels, and the pace of the job.

import type { Clock } from "../../base/clock.ts";
import { badRequest, unsupported, WeighbridgeError } from "../../base/errors.ts";
import { type Log, SILENT_LOG } from "../../base/log.ts";
import type { PushCounter } from "../../consistency/push-counts.ts";
import type { Arena } from "../../kernel/arena.ts";
import { simdCodecKernels } from "../../kernel/codec-kernels.ts";
import { type DuplicateKernels, type MergeNumber, type RowJoin, simdDuplicateKernels } from "../../kernel/duplicate-kernels.ts";
import { type InitializerKernels, SimdInitializerKernels } from "../../kernel/initializer-kernels.ts";
import type { Kernels } from "../../kernel/kernels.ts";
import { QuantileTable } from "../../kernel/normal-quantiles.ts";
import { type OptimizerKernels, SimdOptimizerKernels } from "../../kernel/optimizer-kernels.ts";
import { type PartitionKernels, simdPartitionKernels } from "../../kernel/partition-kernels.ts";
import { ROW_ELEMENTS } from "../../kernel/row-element.ts";
import { rowJoin } from "../../kernel/row-joins.ts";
import { type RowKernels, simdRowKernels } from "../../kernel/row-kernels.ts";
import { Initializer } from "../../store/initializers/initializer.ts";
import { greatestDrawn } from "../../store/initializers/initializer-draw.ts";
import { bringPagesAhead } from "../../store/pages-ahead.ts";
import type { ParameterSpec, TableSpec } from "../../store/parameter-spec.ts";
import { PlugIns } from "../../store/plug-ins.ts";
import { PLAIN_ROW_TYPES } from "../../store/row-types/built-in-row-types.ts";
import { rowStarts } from "../../store/row-types/row-starts.ts";
import { elementOf, rowElements, rowTypeName } from "../../store/row-types/row-type-spec.ts";
import { TableStore } from "../../store/table-store.ts";
import { mergeOf, takesValues } from "../../store/updaters/optimizer-spec.ts";
import type { ParameterUpdater } from "../../store/updaters/parameter-updater.ts";
import { PlugInUpdater } from "../../store/updaters/plug-in-updater.ts";
import { Updater } from "../../store/updaters/updater.ts";
import type { GeneralCompression } from "../../wire/codecs/general-compression.ts";
import type { CodecContext } from "../../wire/codecs/value-codec.ts";
import type { Ownership } from "../ownership.ts";
import { WorkerKeyLists } from "./parameter-link.ts";
import { type ServerPacer, serverPacer } from "./parameter-pace.ts";

export type ParameterHostOptions = {
  readonly arena: Arena;
  readonly kernels: Kernels;
  readonly clock: Clock;
  /** The workers that clocks wait for at first; there may be more later. */
  readonly workerCount: number;
  /** Keys the hashes of tables: an attacker who knew it could choose keys that collide. */
  readonly secret: bigint;
  /** For links that need it. */
  readonly compression?: GeneralCompression | undefined;
  /** Which blocks have memory from the start (TensorStore.T7). Default: none. */
  readonly ownership?: Pick<Ownership, "ownsBlock" | "onChange" | "rank"> | undefined;
  /** Row types and updaters of users. Default: none. */
  readonly plugIns?: PlugIns | undefined;
  /** Default: silent. */
  readonly log?: Log | undefined;
};

/**
 * A parameter's names: `number` on the wire, `id` in the pacer, where one that is loaded beside another has its own.
 */
export type ParameterIds = { readonly id: number; readonly number: number };

/** What the host and its pacer report, by the numbers of parameters. */
type ParameterEvents = PushCounter & { failed(parameter: number): void };

export class ParameterHost {
  readonly arena: Arena;
  readonly kernels: Kernels;
  readonly rowKernels: RowKernels;
  readonly optimizers: OptimizerKernels;
  readonly duplicates: DuplicateKernels;
  readonly indexes: PartitionKernels;
  readonly codecs: CodecContext;
  readonly keyLists: WorkerKeyLists;
  readonly compression: GeneralCompression | undefined;
  readonly pacer: ServerPacer;
  readonly plugIns: PlugIns;
  readonly secret: bigint;
  readonly #initializers: InitializerKernels;
  readonly #quantiles: QuantileTable;
  readonly #clock: Clock;
  readonly log: Log;
  readonly #ownership: ParameterHostOptions["ownership"];
  readonly #events: ParameterEvents;
  #isTouching = false;
  #pacerIds = 0;

  constructor(options: ParameterHostOptions, events: ParameterEvents) {
    const { arena, kernels, clock, workerCount, secret, compression, ownership, plugIns = new PlugIns() } = options;
    this.plugIns = plugIns;
    this.arena = arena;
    this.kernels = kernels;
    this.rowKernels = simdRowKernels(arena);
    this.optimizers = new SimdOptimizerKernels(arena);
    this.duplicates = simdDuplicateKernels(arena);
    this.indexes = simdPartitionKernels(arena);
    this.codecs = { arena, kernels, codecKernels: simdCodecKernels(arena) };
    this.keyLists = new WorkerKeyLists(this.codecs);
    this.compression = compression;
    this.pacer = serverPacer(clock, workerCount, events);
    this.#initializers = new SimdInitializerKernels(arena);
    this.#quantiles = new QuantileTable(arena);
    this.#clock = clock;
    this.log = options.log ?? SILENT_LOG;
    this.#ownership = ownership;
    this.#events = events;
    this.secret = secret;
  }

  /** This server's name in errors. */
  get name(): string {
    return `server ${this.#ownership?.rank ?? 0}`;
  }

  /** The parameter of this number has failed (HostedParameter.H4). */
  failed(parameter: number): void {
    this.#events.failed(parameter);
  }

  /** Whether this server owns a block of the parameter of this number. */
  ownsBlock(parameter: number, block: number): boolean {
    return this.#ownership?.ownsBlock(parameter, block) ?? false;
  }

  /** A number in the pacer for what has none of its own: below 0, so that it is never a parameter's. */
  nextPacerId(): number {
    return --this.#pacerIds;
  }

  /** Throws UNKNOWN_PLUG_IN, BAD_ARGUMENT, HANDLER_FAILED, ARENA_FULL. */
  updater(spec: ParameterSpec, width: number, roundFailed: (failure: WeighbridgeError) => void): ParameterUpdater {
    const { kind, optimizer, initializer } = spec;
    const chosen = this.plugIns.updaterOf(spec);
    if (chosen !== undefined) {
      const element = spec.kind === "table" ? elementOf(spec) : "f32";
      return new PlugInUpdater({ arena: this.arena, chosen, spec: optimizer, element, width, roundFailed });
    }
    const updater = new Updater(this.arena, this.optimizers, optimizer, { kind, width });
    updater.noteMagnitude(greatestDrawn(initializer));
    return updater;
  }

  initializer(spec: ParameterSpec): Initializer {
    const shape = spec.kind === "tensor" ? spec.shape : [spec.width];
    return new Initializer(this.arena, this.#initializers, this.#quantiles, spec.initializer, { name: spec.name, shape });
  }

  tableStore(spec: TableSpec, updater: ParameterUpdater, initializer: Initializer): TableStore {
    const { arena, kernels, rowKernels } = this;
    const { versions } = spec;
    const [element, width, made] = [elementOf(spec), rowElements(spec), this.plugIns.madeRow(spec)];
    const isPlain = spec.rowType === undefined;
    const starts = isPlain ? initializer : rowStarts({ arena, initializer, element, width, made });
    const elementBytes = ROW_ELEMENTS[element].bytes;
    return new TableStore({ arena, kernels, rowKernels, width, elementBytes, updater, initializer: starts, versions });
  }

  /** How several updates for a row become one; undefined for gradients of f32, which add up. Throws UNKNOWN_PLUG_IN. */
  joinOf(spec: ParameterSpec): MergeNumber | RowJoin | undefined {
    if (spec.kind === "tensor" || spec.rowType === undefined) return mergeOf(spec.optimizer);
    const rowType = this.plugIns.rowTypeOf(spec)?.plugIn ?? PLAIN_ROW_TYPES[elementOf(spec)];
    return rowJoin({ arena: this.arena, element: elementOf(spec), width: rowElements(spec), merge: mergeOf(spec.optimizer), rowType });
  }

  /** Tables have grown: touches more memory between two turns, so that new rows do not wait for the system's pages. */
  noteGrowth(): void {
    if (this.#isTouching) return;
    this.#isTouching = true;
    this.#clock.afterInput(() => {
      this.#isTouching = false;
      if (bringPagesAhead(this.arena) > 0) this.noteGrowth();
    });
  }
}

/**
 * A worker's scale could turn finite elements into NaN; updates that are values have none. Throws NOT_FINITE,
 * BAD_REQUEST.
 */
export function checkScale(scale: number, spec: ParameterSpec): void {
  const { name, optimizer } = spec;
  if (!Number.isFinite(scale))
    throw new WeighbridgeError("NOT_FINITE", `a gradient for ${name} came with the scale ${scale}: expected a finite number`);
  if (scale !== 1 && spec.kind === "table" && spec.rowType !== undefined)
    throw badRequest(`updates of ${name} came with the scale ${scale}, but rows of ${rowTypeName(spec)} take updates unscaled`);
  if (scale !== 1 && takesValues(optimizer))
    throw badRequest(`values for ${name} came with the scale ${scale}, but ${optimizer.type} takes values unscaled`);
}

/** Throws UNSUPPORTED for an optimizer that computes values anew, whatever they were. */
export function checkSettable({ name, optimizer: { type } }: ParameterSpec): void {
  if (type === "ftrl") throw unsupported(`values of ${name} cannot be set: ftrl computes them of what it has summed up`);
}
